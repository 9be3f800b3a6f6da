//! The same client without async: every call blocks its thread, at most for its timeout.
//!
//! A client has a runtime of its own, shared by its clones, writers and samplers. These calls must not be made from
//! inside another runtime's tasks.

mod client;
mod sampler;
mod writer;

pub use client::Client;
pub use sampler::{BatchSampler, Sampler};
pub use writer::{StructuredWriter, TrajectoryWriter};
