//! Batches of samples, and their data as one array per column.
//!
//! A [`BatchSampler`] gathers samples, a [`SampleBatch`] holds some and decodes them straight into memory of the caller.
//! What a batch's samples consist of is worked out once ([`plan::Plan`]); decoding goes through it chunk by chunk
//! ([`gather`]), so that a chunk of many slices is decoded once. Batches of this process whose items are alike, with one slice
//! per column, need none of that ([`relive_engine::batch`]).

mod collected;
mod copied;
#[cfg(test)]
mod damaged;
mod gather;
mod keys;
mod layout;
mod options;
mod plan;
mod planner;
mod sampler;
mod stored;

pub use collected::SampleBatch;
pub use layout::ColumnLayout;
pub use options::BatchOptions;
pub use sampler::BatchSampler;
