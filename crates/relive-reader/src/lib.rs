//! Readers, which return samples and batches from tables.
//!
//! From the bottom up: `samples` contains the results; `stream` prefetches samples from a server over gRPC, and `bulk`
//! prefetches whole batches; `local` reads tables in this process; `fleet` draws a server for each sample; `call`
//! serves callers that block their thread. [`Sampler`], [`BatchSampler`] and [`SampleCall`] are the public types.
#![forbid(unsafe_code)]

mod batch_options;
mod batch_sampler;
mod bulk;
mod call;
mod fleet;
mod items;
mod listing;
mod local;
mod options;
mod outage;
mod rows;
mod sampler;
mod samples;
mod stream;
mod streams;

pub use batch_options::BatchOptions;
pub use batch_sampler::BatchSampler;
pub use bulk::note_fork;
pub use call::{IdleStreams, SampleCall, UnaryCall};
pub use items::{ItemInfo, ItemPage};
pub use listing::{get_items, items};
pub use options::SamplerOptions;
pub use sampler::Sampler;
pub use samples::{Sample, SampleBatch};
