//! The way of samples from one server.

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

/// A server that owes samples and has given none for this long is asked for no more while others give some.
const PATIENCE: Duration = Duration::from_millis(300);

/// One that has given none for this long does not count as a part of the mixture.
const LONG_SILENCE: Duration = Duration::from_secs(2);

/// How long a server is not asked after what it owed was taken back, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One server of a reader.
pub(super) struct Lane {
    pub(super) server: Arc<Member>,
    /// Opened when the first sample is wanted.
    feed: Option<RemoteFeed>,
    /// Samples that were asked for, or may be, and have not come.
    pub(super) owed: usize,
    pub(super) facts: TableFacts,
    pub(super) weight_per_item: Option<f64>,
    /// Since when it has owed what it owes without giving anything.
    asked_since: Instant,
    /// Since when it has given nothing of what was asked, also of what was taken back.
    silent_since: Option<Instant>,
    paused_until: Option<Instant>,
    pause: Duration,
    /// Its rate limiter has let nothing through in the time that the caller gives it.
    pub(super) timed_out: bool,
}

/// What a lane has given.
pub(super) enum Given {
    Nothing,
    Samples(usize),
    /// It has let nothing through in time.
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

    /// Whether it may be asked for samples.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.server.is_up() && !self.timed_out && self.paused_until.is_none_or(|until| until <= now)
    }

    /// When it may be asked again, if it is paused.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Whether it owes samples and gives none: it is not its fault if what has come is not taken.
    pub(super) fn is_stalled(&self, now: Instant) -> bool {
        self.owed > 0 && now >= self.stalls_at() && self.counts().0 == 0
    }

    pub(super) fn asked_since(&self) -> Instant {
        self.asked_since
    }

    pub(super) fn stalls_at(&self) -> Instant {
        self.asked_since + PATIENCE
    }

    /// Whether its table is a part of what samples are drawn from.
    pub(super) fn takes_part(&self, now: Instant) -> bool {
        self.server.is_up() && self.silent_since.is_none_or(|since| now < since + LONG_SILENCE)
    }

    /// Lets it ask for `samples` more.
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
                // What breaks is found out at once, and others are asked.
                let connection = self.server.connection();
                self.feed = Some(RemoteFeed::new(connection, table, options, samples, Duration::ZERO));
            }
        }
    }

    /// Moves what has come to the end of `into`.
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

    /// Learns from a sample as the server tells it.
    pub(super) fn learn(&mut self, sample: &SampleInfo) {
        self.facts.size = sample.table_size;
        if let Some(weight) = weight_per_item(self.facts, sample) {
            self.weight_per_item = Some(weight);
        }
    }

    /// Takes back what is owed, and gives its number: the stream ends, which withdraws it at the server.
    pub(super) fn take_back(&mut self) -> usize {
        self.feed = None;
        std::mem::take(&mut self.owed)
    }

    /// Takes over what the server says of its table.
    pub(super) fn take_over(&mut self, facts: TableFacts) {
        if self.facts.size == 0 && facts.size > 0 {
            self.paused_until = None;
        }
        self.facts = facts;
    }

    /// Asks it for no samples for a while, longer each time that it has given none, and meanwhile how its table is.
    pub(super) fn pause_asking(&mut self) {
        self.server.ask_now();
        self.paused_until = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Samples that have come and were not taken, and samples asked for that have not.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.feed.as_ref().map_or((0, 0), RemoteFeed::counts)
    }
}

/// The error of a server, with its address.
pub(super) fn at(server: &Member, error: &Error) -> Error {
    Error::with_source(error.kind(), format!("{error} (at {})", server.address()), error.clone())
}

/// No error is of use to a reader who goes on with other servers.
pub(super) type Taken = Option<Result<()>>;
