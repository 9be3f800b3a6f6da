//! A model of selectors, and the suite that every selector passes.

mod conformance;
mod naive;

pub use conformance::{conformance, kinds};
pub use naive::NaiveSelector;
