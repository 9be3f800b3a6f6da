//! Batches of samples, and their data as one array per column.
//!
//! A [`BatchSampler`] gathers samples, a [`SampleBatch`] holds some and decodes them straight into memory of the caller.
//! What a batch's samples consist of is worked out once ([`plan::Plan`]); decoding goes through it chunk by chunk
//! ([`gather`]), so that a chunk of many slices is decoded once.

mod collected;
#[cfg(test)]
mod damaged;
mod gather;
mod keys;
mod layout;
mod options;
mod plan;
mod planner;
mod sampler;

pub use collected::SampleBatch;
pub use layout::ColumnLayout;
pub use options::BatchOptions;
pub use sampler::BatchSampler;
