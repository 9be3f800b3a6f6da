//! Reading samples: workers that keep streams open, and the sampler that hands their samples out.
//!
//! The workers and the sampler share one lock ([`shared::Shared`]). Samples cross it in batches: a worker adds what one message
//! held, the sampler takes all there is.

mod options;
mod reader;
mod sample;
mod shared;
#[cfg(test)]
mod shared_model;
mod worker;

pub use options::SamplerOptions;
pub use reader::Sampler;
pub use sample::{Sample, SampleInfo};
