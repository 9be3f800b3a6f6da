//! Batches: the columns of sampled items side by side in memory of the caller.

mod content;
mod error;
mod gather;
mod pieces;
mod plain;
mod share;
mod target;
mod uniform;

pub use content::{Batch, BatchColumn};
pub use error::BatchError;
pub use plain::PlainColumn;
pub use share::{on_threads, threads_for};
pub use target::Target;
pub use uniform::{Uniform, UniformColumn};
