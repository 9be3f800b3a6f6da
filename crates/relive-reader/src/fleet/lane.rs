//! One of the servers that a reader uses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use relive_batch::SampleInfo;
use relive_connection::{Error, Result};
use relive_fleet::{Member, TableFacts};
use tokio::time::Instant;

use super::mixture::weight_per_item;
use crate::options::SamplerOptions;
use crate::samples::Sample;
use crate::stream::RemoteFeed;

/// How long a server with outstanding requests may deliver nothing, while others deliver samples, before no more
/// requests are sent to it.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long a server may deliver nothing before it is excluded from the mixture.
const LONG_SILENCE: Duration = Duration::from_secs(2);

/// The first and the longest pause in requests to a server after its requests have been withdrawn.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One server of a reader.
pub(super) struct Lane {
    pub(super) server: Arc<Member>,
    /// The stream, which is opened when the first sample is requested.
    feed: Option<RemoteFeed>,
    /// The number of samples that have been or may be requested but have not arrived.
    pub(super) outstanding: usize,
    pub(super) facts: TableFacts,
    pub(super) weight_per_item: Option<f64>,
    /// The time since which requests have been outstanding without anything being delivered.
    requested_since: Instant,
    /// The time since which the server has not delivered any requested sample, including samples of withdrawn requests.
    silent_since: Option<Instant>,
    paused_until: Option<Instant>,
    pause: Duration,
    /// Whether the rate limiter of the lane's table has exceeded the caller's timeout.
    pub(super) timed_out: bool,
}

/// The output of a lane.
pub(super) enum LaneOutput {
    Nothing,
    Samples,
    /// The rate limiter of the lane's table timed out.
    TimedOut(Error),
    /// The server is unreachable.
    Away(Error),
    Failed(Error),
}

impl Lane {
    pub(super) fn new(server: Arc<Member>, table: &str) -> Lane {
        let facts = server.facts(table);
        Lane {
            server,
            feed: None,
            outstanding: 0,
            facts,
            weight_per_item: None,
            requested_since: Instant::now(),
            silent_since: None,
            paused_until: None,
            pause: FIRST_PAUSE,
            timed_out: false,
        }
    }

    /// Returns whether samples may be requested from the lane.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.server.is_up() && !self.timed_out && self.paused_until.is_none_or(|until| until <= now)
    }

    /// Returns the time at which requests may resume, if the lane is paused.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Returns whether requests are outstanding and the server is delivering nothing. A server is not stalled if it has
    /// delivered samples that have not been taken yet.
    pub(super) fn is_stalled(&self, now: Instant) -> bool {
        self.outstanding > 0 && now >= self.stalls_at() && self.counts().0 == 0
    }

    pub(super) fn requested_since(&self) -> Instant {
        self.requested_since
    }

    pub(super) fn stalls_at(&self) -> Instant {
        self.requested_since + PATIENCE
    }

    /// Returns whether the lane's table is part of the mixture.
    pub(super) fn takes_part(&self, now: Instant) -> bool {
        self.server.is_up() && self.silent_since.is_none_or(|since| now < since + LONG_SILENCE)
    }

    /// Allows the lane to request `samples` additional samples.
    pub(super) fn ask(&mut self, table: &str, options: &SamplerOptions, samples: usize) {
        let now = Instant::now();
        if self.outstanding == 0 {
            self.requested_since = now;
        }
        self.silent_since.get_or_insert(now);
        self.outstanding += samples;
        match &self.feed {
            Some(feed) => feed.give_back(samples),
            None => {
                // With a patience of zero, a broken connection is detected immediately, so that other servers are used.
                let connection = self.server.connection();
                self.feed = Some(RemoteFeed::new(connection, table, options, samples, Duration::ZERO));
            }
        }
    }

    /// Appends the samples that have arrived to `into`.
    pub(super) fn poll(&mut self, into: &mut VecDeque<Sample>, cx: &mut Context<'_>) -> LaneOutput {
        let Some(feed) = &mut self.feed else { return LaneOutput::Nothing };
        let before = into.len();
        match feed.poll_take(0, into, cx) {
            Poll::Pending => LaneOutput::Nothing,
            Poll::Ready(None) => self.record_delivered(0),
            Poll::Ready(Some(Ok(()))) => self.record_delivered(into.len() - before),
            Poll::Ready(Some(Err(error))) if error.is_timeout() => LaneOutput::TimedOut(error),
            Poll::Ready(Some(Err(error))) if error.is_transient() => LaneOutput::Away(error),
            Poll::Ready(Some(Err(error))) => LaneOutput::Failed(error),
        }
    }

    fn record_delivered(&mut self, samples: usize) -> LaneOutput {
        self.outstanding = self.outstanding.saturating_sub(samples);
        self.requested_since = Instant::now();
        self.silent_since = (self.outstanding > 0).then_some(self.requested_since);
        self.pause = FIRST_PAUSE;
        LaneOutput::Samples
    }

    /// Updates the weight of the table from a sample that the server sent.
    pub(super) fn learn(&mut self, sample: &SampleInfo) {
        self.facts.size = sample.table_size;
        if let Some(weight) = weight_per_item(self.facts, sample) {
            self.weight_per_item = Some(weight);
        }
    }

    /// Withdraws outstanding requests and returns their number. Ending the stream withdraws them on the server.
    pub(super) fn take_back(&mut self) -> usize {
        self.feed = None;
        std::mem::take(&mut self.outstanding)
    }

    /// Updates the known state of the server's table.
    pub(super) fn take_over(&mut self, facts: TableFacts) {
        if self.facts.size == 0 && facts.size > 0 {
            self.paused_until = None;
        }
        self.facts = facts;
    }

    /// Pauses requests to the server, for longer each time that it delivers nothing. During the pause, requests the
    /// state of the server's table.
    pub(super) fn pause_requests(&mut self) {
        self.server.refresh_now();
        self.paused_until = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Records that nobody waits for a sample of the lane at the moment.
    pub(super) fn caller_left(&self) {
        if let Some(feed) = &self.feed {
            feed.caller_left();
        }
    }

    /// Returns the number of samples that have arrived but have not been taken, and the number of samples that have
    /// been requested but have not arrived.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.feed.as_ref().map_or((0, 0), RemoteFeed::counts)
    }
}

/// Returns an error from a server, with the server's address.
pub(super) fn at(server: &Member, error: &Error) -> Error {
    Error::with_source(error.kind(), format!("{error} (at {})", server.address()), error.clone())
}

/// The result of a lane. A reader that continues with other servers ignores errors.
pub(super) type LaneResult = Option<Result<()>>;
