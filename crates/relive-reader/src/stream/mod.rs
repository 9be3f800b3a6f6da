//! Samples from one server over gRPC: workers that keep streams open, and the feed that delivers their samples.
//!
//! The workers and the feed share one lock ([`shared::Shared`]). A worker adds all
//! samples of a message at once, and the feed takes all available samples at once.

mod feed;
mod responses;
mod shared;
mod worker;

pub(crate) use feed::RemoteFeed;
pub(crate) use responses::{Responses, SAMPLE_STREAM, StreamEnd};
