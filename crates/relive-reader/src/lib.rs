//! Readers: samples and batches of tables.
//!
//! From the bottom up: `samples` are what is read; `stream` fetches samples of a server ahead of their use, over
//! gRPC, and `bulk` fetches whole batches; `local` asks tables of this process; `fleet` draws servers for samples of
//! many; `call` serves callers that wait on the spot. [`Sampler`], [`BatchSampler`] and [`SampleCall`] are what users
//! hold.
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
mod rows;
mod sampler;
mod samples;
mod stream;
mod streams;

pub use batch_options::BatchOptions;
pub use batch_sampler::BatchSampler;
pub use bulk::note_fork;
pub use call::{IdleStreams, SampleCall};
pub use items::{ItemInfo, ItemPage};
pub use listing::{get_items, items};
pub use options::SamplerOptions;
pub use sampler::Sampler;
pub use samples::{Sample, SampleBatch};
