//! One server of a reader of many servers.

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

/// A server with outstanding requests that has delivered nothing for this long gets no more requests while others
/// deliver.
const PATIENCE: Duration = Duration::from_millis(300);

/// A server that has delivered nothing for this long is excluded from the mixture.
const LONG_SILENCE: Duration = Duration::from_secs(2);

/// The first and the longest pause of a server after its requests were withdrawn.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One server of a reader.
pub(super) struct Lane {
    pub(super) server: Arc<Member>,
    /// Opened when the first sample is requested.
    feed: Option<RemoteFeed>,
    /// Number of samples that were or may be requested and have not arrived.
    pub(super) owed: usize,
    pub(super) facts: TableFacts,
    pub(super) weight_per_item: Option<f64>,
    /// Since when requests are outstanding and nothing was delivered.
    asked_since: Instant,
    /// Since when it has delivered nothing of what was requested, including withdrawn requests.
    silent_since: Option<Instant>,
    paused_until: Option<Instant>,
    pause: Duration,
    /// Whether its rate limiter exceeded the caller's timeout.
    pub(super) timed_out: bool,
}

/// What a lane has delivered.
pub(super) enum Given {
    Nothing,
    Samples(usize),
    /// Its rate limiter timed out.
    TimedOut(Error),
    /// The server is away.
    Away(Error),
    Failed(Error),
}

impl Lane {
    pub(super) fn new(server: Arc<Member>, table: &str) -> Lane {
        let facts = server.facts(table);
        Lane {
            server,
            feed: None,
            owed: 0,
            facts,
            weight_per_item: None,
            asked_since: Instant::now(),
            silent_since: None,
            paused_until: None,
            pause: FIRST_PAUSE,
            timed_out: false,
        }
    }

    /// Whether samples may be requested from it.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.server.is_up() && !self.timed_out && self.paused_until.is_none_or(|until| until <= now)
    }

    /// Returns when requests may resume, if it is paused.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Whether requests are outstanding and it delivers nothing. Samples that have arrived and are not taken do not
    /// count against it.
    pub(super) fn is_stalled(&self, now: Instant) -> bool {
        self.owed > 0 && now >= self.stalls_at() && self.counts().0 == 0
    }

    pub(super) fn asked_since(&self) -> Instant {
        self.asked_since
    }

    pub(super) fn stalls_at(&self) -> Instant {
        self.asked_since + PATIENCE
    }

    /// Whether its table is a part of the mixture.
    pub(super) fn takes_part(&self, now: Instant) -> bool {
        self.server.is_up() && self.silent_since.is_none_or(|since| now < since + LONG_SILENCE)
    }

    /// Lets it request `samples` more.
    pub(super) fn ask(&mut self, table: &str, options: &SamplerOptions, samples: usize) {
        let now = Instant::now();
        if self.owed == 0 {
            self.asked_since = now;
        }
        self.silent_since.get_or_insert(now);
        self.owed += samples;
        match &self.feed {
            Some(feed) => feed.give_back(samples),
            None => {
                // A broken connection is detected immediately, and other servers are used.
                let connection = self.server.connection();
                self.feed = Some(RemoteFeed::new(connection, table, options, samples, Duration::ZERO));
            }
        }
    }

    /// Appends the samples that have arrived to `into`.
    pub(super) fn poll(&mut self, into: &mut VecDeque<Sample>, cx: &mut Context<'_>) -> Given {
        let Some(feed) = &mut self.feed else { return Given::Nothing };
        let before = into.len();
        match feed.poll_take(0, into, cx) {
            Poll::Pending => Given::Nothing,
            Poll::Ready(None) => self.gave(0),
            Poll::Ready(Some(Ok(()))) => self.gave(into.len() - before),
            Poll::Ready(Some(Err(error))) if error.is_timeout() => Given::TimedOut(error),
            Poll::Ready(Some(Err(error))) if error.is_transient() => Given::Away(error),
            Poll::Ready(Some(Err(error))) => Given::Failed(error),
        }
    }

    fn gave(&mut self, samples: usize) -> Given {
        self.owed = self.owed.saturating_sub(samples);
        self.asked_since = Instant::now();
        self.silent_since = (self.owed > 0).then_some(self.asked_since);
        self.pause = FIRST_PAUSE;
        Given::Samples(samples)
    }

    /// Updates the weight of the table from a sample of the server.
    pub(super) fn learn(&mut self, sample: &SampleInfo) {
        self.facts.size = sample.table_size;
        if let Some(weight) = weight_per_item(self.facts, sample) {
            self.weight_per_item = Some(weight);
        }
    }

    /// Withdraws outstanding requests and returns their number. Ending the stream withdraws them at the server.
    pub(super) fn take_back(&mut self) -> usize {
        self.feed = None;
        std::mem::take(&mut self.owed)
    }

    /// Updates the facts about its table.
    pub(super) fn take_over(&mut self, facts: TableFacts) {
        if self.facts.size == 0 && facts.size > 0 {
            self.paused_until = None;
        }
        self.facts = facts;
    }

    /// Pauses requests to it, longer each time that it delivers nothing. Meanwhile, asks it for the state of its table.
    pub(super) fn pause_asking(&mut self) {
        self.server.ask_now();
        self.paused_until = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Returns the number of samples that have arrived and were not taken, and of those that were requested and have
    /// not arrived.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.feed.as_ref().map_or((0, 0), RemoteFeed::counts)
    }
}

/// Returns the error of a server, with its address.
pub(super) fn at(server: &Member, error: &Error) -> Error {
    Error::with_source(error.kind(), format!("{error} (at {})", server.address()), error.clone())
}

/// The result of a lane. A reader that continues with other servers has no use for errors.
pub(super) type Taken = Option<Result<()>>;
