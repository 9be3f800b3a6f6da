//! Samples of one server over gRPC: workers that keep streams open, and the feed that delivers their samples.
//!
//! The workers and the feed share one lock ([`shared::Shared`]). Samples pass it in batches: a worker adds the samples
//! of one message, and the feed takes all available samples.

mod feed;
mod responses;
mod shared;
mod worker;

pub(crate) use feed::RemoteFeed;
pub(crate) use responses::{Broken, Responses, SAMPLE_STREAM, end_of_message};
