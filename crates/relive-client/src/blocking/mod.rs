//! The blocking client: every call blocks the calling thread, for at most the duration of its timeout.
//!
//! A client has its own runtime, which its clones, writers and samplers share. Do not call these methods from tasks on
//! another runtime.

mod client;
mod runtime;
mod sampler;
mod writer;

pub use client::Client;
pub use sampler::{BatchSampler, Sampler};
pub use writer::{StructuredWriter, TrajectoryWriter};
