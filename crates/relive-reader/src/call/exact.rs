//! Samples over gRPC for batches without prefetching: from many servers, or from a server without the bulk path.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use relive_connection::{Deadline, Error, ErrorKind, GrpcChannel, Result};
use relive_fleet::Fleet;
use relive_fleet::{Backend, Target};
use tokio::time::timeout_at;

use super::remote::{GRACE, Progress};
use super::stream::{Exchange, Stream};
use crate::fleet::FleetFeed;
use crate::options::{Requested, SamplerOptions};
use crate::outage::as_reason;
use crate::samples::Sample;

/// Requests samples only while a caller is waiting for them, and only as many as are missing.
///
/// Abandoning a wait withdraws its request. Samples that the server has already taken for this request still arrive and
/// are kept for the next wait.
pub(crate) struct ExactFeed {
    backend: Backend,
    table: Arc<str>,
    /// How long servers may be unreachable.
    patience: Duration,
    /// The stream to one server. The next wait reuses it if the current wait succeeds.
    stream: Option<Stream>,
    /// Requests that an abandoned wait made to many servers, and that are not withdrawn.
    fleet: Option<Box<FleetFeed>>,
    ready: VecDeque<Sample>,
}

impl ExactFeed {
    /// Creates a feed that already has some samples.
    pub(crate) fn new(
        backend: Backend,
        table: Arc<str>,
        patience: Duration,
        ready: VecDeque<Sample>,
    ) -> ExactFeed {
        ExactFeed { backend, table, patience, stream: None, fleet: None, ready }
    }

    /// Returns the number of samples that have arrived.
    pub(crate) fn num_ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes the first `count` samples that have arrived.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Sample> {
        self.ready.drain(..count.min(self.ready.len())).collect()
    }

    /// Waits until `requested` samples have arrived.
    ///
    /// # Errors
    /// `Timeout` if they have not arrived within `timeout`; `Unavailable` if no server answers. After either error, the
    /// call can be repeated. Any other error from the server is also returned.
    pub(crate) async fn fill(&mut self, requested: usize, timeout: Option<Duration>) -> Result<()> {
        if self.ready.len() >= requested {
            return Ok(());
        }
        let backend = self.backend.clone();
        match backend.target() {
            Target::Server(connection) => self.fill_from_one(&connection.channel(), requested, timeout).await,
            Target::Fleet(fleet) => self.fill_from_fleet(fleet, requested, timeout).await,
            // Tables in this process are read by other code.
            Target::Process(_) => Ok(()),
        }
    }

    async fn fill_from_one(
        &mut self,
        channel: &GrpcChannel,
        requested: usize,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let ExactFeed { table, patience, stream, ready, .. } = self;
        let requested = Requested { table: table.to_string(), samples: requested, timeout };
        let progress = Progress::new(requested, std::mem::take(ready), Some(*patience));
        PendingRequest { stream, ready, progress }.run(channel).await
    }

    async fn fill_from_fleet(
        &mut self,
        fleet: &Arc<Fleet>,
        requested: usize,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let deadline = timeout.map(Deadline::after);
        loop {
            let is_old = self.fleet.is_some();
            let left = deadline.and_then(Deadline::left).or(timeout);
            let missing = requested.saturating_sub(self.ready.len());
            let feed = match self.fleet.take() {
                Some(feed) => feed,
                None => Box::new(self.ask_fleet(fleet, missing, left)?),
            };
            let filled = take_all(self.fleet.insert(feed), &mut self.ready, requested);
            // A reachable server reports the timeout itself, unless the request was made with a different timeout.
            let grace = if is_old { Duration::ZERO } else { GRACE };
            let filled = match left.map(|left| Deadline::after(left.saturating_add(grace))) {
                Some(deadline) => deadline.run(filled).await,
                None => Some(filled.await),
            };
            let outage = || self.fleet.as_ref().and_then(|feed| feed.outage()).as_ref().map(as_reason);
            let filled = filled.unwrap_or_else(|| Err(late(outage())));
            if let Some(mut over) = self.fleet.take() {
                over.take_arrived(&mut self.ready, &mut Context::from_waker(Waker::noop()));
            }
            let has_time = deadline.is_none_or(|at| at.left().is_none_or(|left| !left.is_zero()));
            match filled {
                Err(error) if error.is_timeout() && is_old && has_time => {}
                filled => return filled,
            }
        }
    }

    fn ask_fleet(&self, fleet: &Arc<Fleet>, missing: usize, timeout: Option<Duration>) -> Result<FleetFeed> {
        let mut options =
            SamplerOptions::default().max_samples(missing).max_in_flight_samples_per_worker(missing);
        if let Some(timeout) = timeout {
            options = options.rate_limiter_timeout(timeout);
        }
        FleetFeed::new(fleet, &self.table, &options, missing, self.patience)
    }
}

/// A request to one server, made while a caller is waiting.
struct PendingRequest<'a> {
    stream: &'a mut Option<Stream>,
    ready: &'a mut VecDeque<Sample>,
    progress: Progress,
}

impl PendingRequest<'_> {
    async fn run(mut self, channel: &GrpcChannel) -> Result<()> {
        let PendingRequest { stream, progress, .. } = &mut self;
        let give_up_at = progress.give_up_at();
        let filled = async {
            Stream::finish_taken_back(stream, progress.got()).await;
            progress.fill(Exchange::new(stream, channel)).await
        };
        let filled = match give_up_at {
            None => Some(filled.await),
            Some(at) => timeout_at(at, filled).await.ok(),
        };
        filled.unwrap_or_else(|| Err(self.progress.no_answer()))
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        Stream::take_back(self.stream, self.progress.take_back_request());
        self.ready.append(self.progress.got());
    }
}

/// Waits until `requested` samples have arrived. Dropping the future loses no samples.
async fn take_all(feed: &mut FleetFeed, ready: &mut VecDeque<Sample>, requested: usize) -> Result<()> {
    while ready.len() < requested {
        match poll_fn(|cx| feed.poll_take(0, ready, cx)).await {
            Some(taken) => taken?,
            None => return Err(late(None)),
        }
    }
    Ok(())
}

fn late(outage: Option<String>) -> Error {
    let why = outage.map_or_else(String::new, |outage| format!(" ({outage})"));
    Error::new(ErrorKind::Timeout, format!("sample: Deadline Exceeded: the servers did not answer{why}"))
}
