//! Samples of one server over gRPC: workers that keep streams open, and the feed that hands their samples out.
//!
//! The workers and the feed share one lock ([`shared::Shared`]). Samples cross it in batches: a worker adds what one
//! message held, the feed takes all there is.

mod feed;
mod responses;
mod shared;
mod worker;

pub(crate) use feed::RemoteFeed;
pub(crate) use responses::{Broken, Responses, SAMPLE_STREAM, end_of_message};
