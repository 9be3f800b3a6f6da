//! Streams from one server or from many.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use relive_connection::{Error, Result};

use crate::fleet::FleetFeed;
use crate::samples::Sample;
use crate::stream::RemoteFeed;

/// The source of prefetched samples.
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

    /// Returns how many credits should be handed back together.
    pub(crate) fn credit_batch(&self) -> usize {
        match self {
            Streams::One(feed) => feed.credit_batch(),
            Streams::Many(feed) => feed.credit_batch(),
        }
    }

    /// Allows the streams to request the given number of additional samples.
    pub(crate) fn give_back(&mut self, credits: usize) {
        match self {
            Streams::One(feed) => feed.give_back(credits),
            Streams::Many(feed) => feed.give_back(credits),
        }
    }

    /// Returns the number of samples that have arrived but have not been taken, and the number of samples that have
    /// been requested but have not arrived.
    pub(crate) fn counts(&self) -> (usize, usize) {
        match self {
            Streams::One(feed) => feed.counts(),
            Streams::Many(feed) => feed.counts(),
        }
    }

    /// Records that nobody waits for a sample at the moment.
    pub(crate) fn caller_left(&self) {
        match self {
            Streams::One(feed) => feed.caller_left(),
            Streams::Many(feed) => feed.caller_left(),
        }
    }

    /// Returns the error for servers that are unreachable at the moment.
    pub(crate) fn outage(&self) -> Option<Error> {
        match self {
            Streams::One(feed) => feed.outage(),
            Streams::Many(feed) => feed.outage(),
        }
    }

    /// Hands credits back and appends all available samples to `into`. Returns `None` after the last sample.
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
