//! Streams of one server, or of many.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use relive_connection::Result;

use crate::fleet::FleetFeed;
use crate::samples::Sample;
use crate::stream::RemoteFeed;

/// Where samples that are fetched ahead come from.
pub(crate) enum Streams {
    One(RemoteFeed),
    Many(Box<FleetFeed>),
}

impl Streams {
    pub(crate) fn table(&self) -> &str {
        match self {
            Streams::One(feed) => feed.table(),
            Streams::Many(feed) => feed.table(),
        }
    }

    /// How many credits are worth giving back at once.
    pub(crate) fn credit_batch(&self) -> usize {
        match self {
            Streams::One(feed) => feed.credit_batch(),
            Streams::Many(feed) => feed.credit_batch(),
        }
    }

    /// Lets the streams ask for so many samples more.
    pub(crate) fn give_back(&mut self, credits: usize) {
        match self {
            Streams::One(feed) => feed.give_back(credits),
            Streams::Many(feed) => feed.give_back(credits),
        }
    }

    /// Samples that have come and were not taken, and samples asked for that have not come.
    pub(crate) fn counts(&self) -> (usize, usize) {
        match self {
            Streams::One(feed) => feed.counts(),
            Streams::Many(feed) => feed.counts(),
        }
    }

    /// Gives credits back, and moves all samples there are to the end of `into`. None after the last sample.
    pub(crate) fn poll_take(
        &mut self,
        credits: usize,
        into: &mut VecDeque<Sample>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<()>>> {
        match self {
            Streams::One(feed) => feed.poll_take(credits, into, cx),
            Streams::Many(feed) => feed.poll_take(credits, into, cx),
        }
    }
}
