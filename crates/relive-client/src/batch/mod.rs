//! Batches of samples, and their data as one array per column.
//!
//! A [`BatchSampler`] takes samples, a [`SampleBatch`] holds some. How they become columns is the crate `relive-batch`'s: planned where they
//! lie in their chunks, or gathered already by the server, or by the table of this process.

mod collected;
#[cfg(test)]
mod damaged;
mod names;
mod options;
mod rows;
mod sampler;

pub use collected::SampleBatch;
pub use options::BatchOptions;
pub use sampler::BatchSampler;
