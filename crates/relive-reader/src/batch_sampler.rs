//! The public batch sampler.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use relive_connection::{
    Connection, Deadline, Error, ErrorKind, Result, SAMPLE_TIMEOUT, Transport, engine_error,
};
use relive_engine::EngineError;
use relive_fleet::{Backend, Target};
use relive_table::Sampled;

use crate::batch_options::BatchOptions;
use crate::bulk::{BulkFeed, Next};
use crate::call::{ExactFeed, GRACE};
use crate::fleet::FleetFeed;
use crate::local::LocalFeed;
use crate::outage::as_reason;
use crate::rows::Rows;
use crate::samples::Sample;
use crate::samples::SampleBatch;
use crate::stream::RemoteFeed;
use crate::streams::Streams;

/// Reads batches of samples from one table.
///
/// # Example
///
/// ```
/// use relive_client::{BatchOptions, Client, Nest, Tensor};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("steps", 10)).build()?);
/// for reward in [0.5_f32, 1.5] {
///     client.insert(&Nest::Leaf(Tensor::scalar(reward)), &[("steps", 1.0)]).await?;
/// }
/// let mut batches = client.batches("steps", BatchOptions::new(2).max_batches(1))?;
/// let batch = batches.next().await.expect("one batch")?;
/// let mut rewards = vec![0; batch.columns()?[0].size_bytes(batch.len()).expect("numbers")];
/// batch.gather_into(0, &mut rewards)?;
/// assert_eq!(rewards, [0.5_f32.to_le_bytes(), 1.5_f32.to_le_bytes()].concat());
/// assert!(batches.next().await.is_none());
/// # Ok(())
/// # }
/// ```
///
/// # Prefetching
///
/// When it samples from a server, a sampler requests batches (four, by default) before they are needed. With a
/// [`prefetch`](BatchOptions::prefetch) of 0, and for a table in the same process, it takes samples only when the
/// caller requests a batch. Dropping the sampler withdraws its requests; samples that have arrived but have not been
/// returned are lost.
///
/// # Errors
///
/// After `Timeout` and `Unavailable`, the call can be repeated, since samples that have arrived are kept for the next
/// batch. All other errors are permanent.
pub struct BatchSampler {
    source: Source,
    backend: Backend,
    table: Arc<str>,
    options: BatchOptions,
    batch_size: usize,
    batches_ahead: usize,
    timeout: Option<Duration>,
    /// The number of batches until the end, or `None` if there is no end.
    left: Option<usize>,
}

enum Source {
    /// Complete batches from a server.
    Bulk(BulkFeed),
    /// Samples from many servers, or from a server that supports only gRPC, requested only when a batch is needed.
    Exact(ExactFeed),
    /// Samples from a server that supports only gRPC, or from many servers.
    Remote {
        feed: Streams,
        /// The number of samples that the feed may fetch or has fetched, but that are not in `ready` yet.
        granted: usize,
        /// Samples that have arrived but are not in a batch yet.
        ready: VecDeque<Sample>,
    },
    Local {
        feed: LocalFeed,
        /// Samples that have been taken but are not in a batch yet, in order.
        ready: Vec<Sampled>,
        rows: Rows,
    },
}

impl BatchSampler {
    /// Creates a reader for batches of `table`, as `Client::batches` does.
    ///
    /// # Errors
    /// `InvalidArgument` if an option is out of range; `NotFound` for an unknown table in this process. A server
    /// reports an unknown table with the first batch.
    pub fn new(backend: &Backend, table: &str, options: &BatchOptions) -> Result<BatchSampler> {
        options.validate()?;
        let batches_ahead = options.batches_ahead(backend.transport());
        let patience = options.timeout.unwrap_or(backend.timeout());
        let source = match backend.target() {
            Target::Fleet(_) if batches_ahead == 0 => {
                Source::Exact(ExactFeed::new(backend.clone(), Arc::from(table), patience, VecDeque::new()))
            }
            Target::Server(connection) => bulk(connection, table, options, batches_ahead, patience),
            Target::Fleet(fleet) => {
                let granted = batches_ahead * options.batch_size;
                let feed = FleetFeed::new(fleet, table, &options.of_streams(0), granted, patience)?;
                Source::Remote { feed: Streams::Many(Box::new(feed)), granted, ready: VecDeque::new() }
            }
            Target::Process(local) => {
                let handle = local.table("sample", table)?;
                let rows = Rows::new(Arc::from(table), options.batch_size);
                let feed = LocalFeed::new(handle, Arc::clone(local.who()));
                Source::Local { feed, ready: Vec::new(), rows }
            }
        };
        let BatchOptions { batch_size, timeout, max_batches: left, .. } = *options;
        let (table, options) = (Arc::from(table), *options);
        let backend = backend.clone();
        Ok(BatchSampler { source, backend, table, options, batch_size, batches_ahead, timeout, left })
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the number of complete batches that have arrived, and the number of samples that have been requested but
    /// have not arrived.
    pub fn prefetched(&self) -> (usize, usize) {
        let (come, in_flight) = match &self.source {
            Source::Bulk(feed) => {
                let (come, in_flight) = feed.counts();
                return (come, in_flight * self.batch_size);
            }
            Source::Remote { feed, .. } => feed.counts(),
            Source::Exact(_) => (0, 0),
            Source::Local { feed, .. } => (0, feed.in_flight()),
        };
        ((self.num_ready() + come) / self.batch_size, in_flight)
    }

    /// Returns the next batch, or `None` after `max_batches`.
    ///
    /// Dropping the future does not lose samples that have arrived: they are kept for the next call. For a table in the
    /// same process, and with a [`prefetch`](BatchOptions::prefetch) of 0, dropping the future withdraws the request;
    /// otherwise, requested samples still arrive and are kept for the next call. Over gRPC, samples that a server is
    /// sending while a request is withdrawn are lost, and the server counts them as `undelivered_samples`; over the bulk
    /// path, they are kept. A timeout loses no samples.
    ///
    /// # Errors
    /// `Timeout` if the batch was not complete in time; `Unavailable` if the server has been unreachable for the
    /// [timeout](BatchOptions::timeout) of the options, or else of the client. After either error, the call can be
    /// repeated. Any other error is permanent, such as `Cancelled` if a table in this process was closed.
    pub async fn next(&mut self) -> Option<Result<SampleBatch>> {
        self.next_within(self.timeout).await
    }

    /// Like [`next`](Self::next), but with its own timeout. If it is `None`, waits without a limit.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next).
    pub async fn next_within(&mut self, timeout: Option<Duration>) -> Option<Result<SampleBatch>> {
        if self.left == Some(0) {
            return None;
        }
        let deadline = timeout.map(Deadline::after);
        if let Source::Bulk(feed) = &mut self.source {
            let next = match next_of(feed, deadline.as_ref()).await {
                Some(next) => next,
                None => match Deadline::after(GRACE).run(feed.withdrawn()).await {
                    Some(Ok(next)) => next,
                    ended => {
                        let missing =
                            ended.and_then(std::result::Result::err).filter(|reason| !reason.is_empty());
                        let reason = missing.or_else(|| feed.outage().as_ref().map(as_reason));
                        let reason = reason.as_deref().unwrap_or("it has not arrived from the server");
                        return Some(Err(self.timed_out(timeout, reason)));
                    }
                },
            };
            match next {
                Next::Batch(batch) => return Some(self.count(batch)),
                Next::End => return None,
                Next::BulkUnavailable(samples) => self.fall_back(samples),
            }
        }
        if let Some(batch) = self.copy() {
            return Some(self.count(Ok(batch)));
        }
        let timeout = timeout.map(|timeout| deadline.and_then(Deadline::left).unwrap_or(timeout));
        match self.fill(timeout).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return Some(Err(error)),
            None => return None,
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        let batch = self.take_batch();
        self.ask_ahead();
        Some(Ok(batch))
    }

    fn num_ready(&self) -> usize {
        match &self.source {
            Source::Bulk(feed) => feed.samples_at_hand(),
            Source::Remote { ready, .. } => ready.len(),
            Source::Exact(feed) => feed.num_ready(),
            Source::Local { ready, .. } => ready.len(),
        }
    }

    /// Takes a batch from the samples that are ready. There must be enough of them.
    fn take_batch(&mut self) -> SampleBatch {
        match &mut self.source {
            // Batches from this source arrive complete.
            Source::Bulk(_) => SampleBatch::new(Vec::new()),
            Source::Exact(feed) => SampleBatch::new(feed.take(self.batch_size)),
            Source::Remote { ready, .. } => SampleBatch::new(ready.drain(..self.batch_size).collect()),
            Source::Local { feed, ready, rows } => {
                rows.learn(feed.table());
                let samples = std::mem::take(ready);
                SampleBatch::stored(samples, &self.table).of_items_like(feed.table().structure())
            }
        }
    }

    /// Returns a batch that the table copies, if there are no samples left over from another batch.
    fn copy(&mut self) -> Option<SampleBatch> {
        let Source::Local { feed, ready, rows } = &mut self.source else { return None };
        if !ready.is_empty() || feed.in_flight() > 0 {
            return None;
        }
        let copied = rows.copy(feed.table()).map_err(|taken| *ready = taken).ok()?;
        Some(copied.of_items_like(feed.table().structure()))
    }

    /// Falls back to gRPC, because the server or a program in front of it does not have the bulk path.
    fn fall_back(&mut self, samples: Vec<Sample>) {
        let (Source::Bulk(feed), Target::Server(connection)) = (&self.source, self.backend.target()) else {
            return;
        };
        let patience = feed.patience();
        if self.batches_ahead == 0 {
            let table = Arc::clone(&self.table);
            self.source =
                Source::Exact(ExactFeed::new(self.backend.clone(), table, patience, samples.into()));
            return;
        }
        let options = match self.left {
            Some(left) => self.options.max_batches(left),
            None => self.options,
        };
        self.source = grpc(connection, &self.table, &options, patience, samples.into());
    }

    /// Counts a batch toward `max_batches`.
    fn count(&mut self, batch: Result<SampleBatch>) -> Result<SampleBatch> {
        if let (Ok(_), Some(left)) = (&batch, &mut self.left) {
            *left -= 1;
        }
        batch
    }

    /// Waits until there are enough samples for a batch. Returns `None` if there are no further samples.
    async fn fill(&mut self, timeout: Option<Duration>) -> Option<Result<()>> {
        if self.num_ready() >= self.batch_size {
            return Some(Ok(()));
        }
        self.ask_missing();
        match &mut self.source {
            Source::Remote { .. } => self.fill_from_server(timeout).await,
            Source::Exact(feed) => {
                let filled = feed.fill(self.batch_size, timeout).await;
                let (had, wanted) = (feed.num_ready(), self.batch_size);
                Some(filled.map_err(|error| incomplete(had, wanted, error)))
            }
            Source::Local { .. } => Some(self.fill_from_table(timeout).await),
            // Complete batches need not be filled.
            Source::Bulk(_) => None,
        }
    }

    /// Lets the streams fetch the samples that the batch is missing and that have not been requested yet.
    fn ask_missing(&mut self) {
        if let Source::Remote { feed, granted, ready } = &mut self.source {
            let missing = self.batch_size.saturating_sub(ready.len());
            if *granted < missing {
                feed.give_back(missing - *granted);
                *granted = missing;
            }
        }
    }

    /// Lets the streams fetch as many new samples as have been returned.
    fn ask_ahead(&mut self) {
        if let Source::Remote { feed, granted, ready } = &mut self.source {
            let wanted = (self.batches_ahead * self.batch_size).saturating_sub(ready.len());
            if *granted < wanted {
                feed.give_back(wanted - *granted);
                *granted = wanted;
            }
        }
    }

    async fn fill_from_server(&mut self, timeout: Option<Duration>) -> Option<Result<()>> {
        let filled = poll_fn(|cx| self.poll_fill_from_server(cx));
        let filled = match timeout {
            Some(timeout) => Deadline::after(timeout).run(filled).await,
            None => Some(filled.await),
        };
        filled.unwrap_or_else(|| {
            let Source::Remote { feed, .. } = &self.source else { return None };
            let outage = feed.outage().as_ref().map(as_reason);
            let reason = outage.as_deref().unwrap_or("they have not arrived from the server");
            Some(Err(self.timed_out(timeout, reason)))
        })
    }

    fn poll_fill_from_server(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<()>>> {
        let Source::Remote { feed, granted, ready } = &mut self.source else { return Poll::Ready(None) };
        while ready.len() < self.batch_size {
            let before = ready.len();
            match ready!(feed.poll_take(0, ready, cx)) {
                Some(Ok(())) => *granted = granted.saturating_sub(ready.len() - before),
                other => return Poll::Ready(other),
            }
        }
        Poll::Ready(Some(Ok(())))
    }

    async fn fill_from_table(&mut self, timeout: Option<Duration>) -> Result<()> {
        let started = Instant::now();
        while self.num_ready() < self.batch_size {
            let Source::Local { feed, ready, .. } = &mut self.source else { return Ok(()) };
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            let missing = self.batch_size - ready.len();
            let asking = PendingCall { feed, ready };
            let answer = poll_fn(|cx| asking.feed.poll_answer(missing, left, cx)).await;
            match answer {
                Ok(mut samples) if asking.ready.is_empty() => *asking.ready = std::mem::take(&mut samples),
                Ok(samples) => asking.ready.extend(samples),
                Err(EngineError::Timeout { reason, .. }) => {
                    drop(asking);
                    return Err(self.timed_out(timeout, &reason));
                }
                Err(error) => return Err(engine_error("sample", error)),
            }
        }
        Ok(())
    }

    fn timed_out(&self, timeout: Option<Duration>, why: &str) -> Error {
        let (table, had, wanted) = (self.table(), self.num_ready(), self.batch_size);
        let waited = timeout.unwrap_or_default();
        let text = format!(
            "sample: {SAMPLE_TIMEOUT} ({had} of {wanted} samples of table `{table}` had arrived after {waited:?}: {why})"
        );
        Error::new(ErrorKind::Timeout, text)
    }
}

/// Returns the error for a batch that was not complete in time, with the number of samples that have arrived.
fn incomplete(had: usize, wanted: usize, error: Error) -> Error {
    if error.kind() != ErrorKind::Timeout {
        return error;
    }
    let text = format!("{error} ({had} of {wanted} samples of the batch had arrived)");
    Error::with_source(ErrorKind::Timeout, text, error)
}

fn bulk(
    connection: &Connection,
    table: &str,
    options: &BatchOptions,
    ahead: usize,
    patience: Duration,
) -> Source {
    let batch_size = u32::try_from(options.batch_size).unwrap_or(u32::MAX);
    let most = options.max_batches.map(|most| most as u64);
    Source::Bulk(BulkFeed::new(connection.clone(), table, batch_size, ahead as u64, most, patience))
}

/// Creates streams that fetch the samples missing from `ready`.
fn grpc(
    connection: &Connection,
    table: &str,
    options: &BatchOptions,
    patience: Duration,
    ready: VecDeque<Sample>,
) -> Source {
    let granted = (options.batches_ahead(Transport::Tcp) * options.batch_size).saturating_sub(ready.len());
    let streams = options.of_streams(ready.len());
    let feed = RemoteFeed::new(connection, table, &streams, granted, patience);
    Source::Remote { feed: Streams::One(feed), granted, ready }
}

/// Waits for a batch from a server; returns `None` if the deadline passes. The end of the wait withdraws a request that
/// has not been served, unless batches are requested in advance.
async fn next_of(feed: &mut BulkFeed, deadline: Option<&Deadline>) -> Option<Next> {
    let pending = PendingBatch(feed);
    let next = poll_fn(|cx| pending.0.poll_next(cx));
    match deadline {
        Some(deadline) => deadline.run(next).await,
        None => Some(next.await),
    }
}

/// A batch that a caller is waiting for.
struct PendingBatch<'a>(&'a mut BulkFeed);

impl Drop for PendingBatch<'_> {
    fn drop(&mut self) {
        self.0.stop_waiting();
    }
}

/// A request whose caller is waiting. If the caller stops waiting, the request is withdrawn, and the samples already
/// taken for it are kept.
struct PendingCall<'a> {
    feed: &'a mut LocalFeed,
    ready: &'a mut Vec<Sampled>,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.ready.append(&mut self.feed.take_back());
    }
}

impl fmt::Debug for BatchSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchSampler")
            .field("table", &self.table())
            .field("batch_size", &self.batch_size)
            .finish_non_exhaustive()
    }
}
