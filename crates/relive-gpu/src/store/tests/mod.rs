//! The store against a naive model, and properties that need threads, files and other mappings.

mod against_model;
mod damage;
mod mappings;
mod model;
mod ranks;
mod refusals;
mod stores;
mod threads;
mod weights;
