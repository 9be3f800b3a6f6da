//! What is read: samples, and batches of them with their data as one array per column.
//!
//! How samples become columns is the crate `relive-batch`'s: planned where they lie in their chunks, or gathered
//! already by the server, or by the table of this process.

mod batch;
mod names;
mod sample;
#[cfg(test)]
mod tests;

pub use batch::SampleBatch;
pub use sample::Sample;
