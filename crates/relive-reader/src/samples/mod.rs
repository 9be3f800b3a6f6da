//! The results of readers: samples, and batches of samples with one array per column.
//!
//! The crate `relive-batch` converts samples to columns. A batch has either been planned, with its data in chunks, or
//! already been gathered by the server or by the table in this process.

mod batch;
mod names;
mod sample;
#[cfg(test)]
mod tests;

pub use batch::SampleBatch;
pub use sample::Sample;
