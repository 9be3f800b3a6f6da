//! Reading samples: workers that keep streams open, and the sampler that hands their samples out.
//!
//! The workers and the sampler share one lock ([`shared::Shared`]). Samples cross it in batches: a worker adds what one message
//! held, the sampler takes all there is.

mod broken;
mod call;
mod local;
mod options;
mod reader;
mod remote;
mod sample;
mod shared;
#[cfg(test)]
mod shared_model;
mod stream;
mod streams;
mod worker;

pub use call::SampleCall;
pub use options::SamplerOptions;
pub use reader::Sampler;
pub use sample::Sample;

pub(crate) use broken::Broken;
pub(crate) use call::{ExactFeed, StreamPool};
pub(crate) use local::LocalFeed;
pub(crate) use remote::RemoteFeed;
pub(crate) use sample::stored_samples;
pub(crate) use stream::{Responses, end_of_message};
pub(crate) use streams::Streams;
