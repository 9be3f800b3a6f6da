//! Tests tables as callers see them.

mod capture;
mod extensions;
mod model;
mod restore;
mod rows;
mod selectors;
mod semantics;
