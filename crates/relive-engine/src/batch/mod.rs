//! Batches: the columns of sampled items side by side in memory of the caller.

mod content;
mod error;
mod gather;
mod pieces;

pub use content::{Batch, BatchColumn};
pub use error::BatchError;
