//! Extensions: code that runs inside a table's operations.

mod contract;
mod diffusion;
mod first_sample;
mod statistics;

pub use contract::{Context, Effect, Extension, Metric};
pub(crate) use contract::{PriorityRequest, Requests};
pub use diffusion::{DiffusionError, MAX_DIFFUSION_NEIGHBORS, PriorityDiffusion};
pub use first_sample::InsertOnFirstSample;
pub use statistics::Statistics;
