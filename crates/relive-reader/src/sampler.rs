//! The public sampler.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use relive_connection::{Deadline, Error, ErrorKind, Result, engine_error};
use relive_fleet::{Backend, Target};

use crate::call::GRACE;
use crate::fleet::FleetFeed;
use crate::local::LocalFeed;
use crate::options::SamplerOptions;
use crate::outage::as_reason;
use crate::samples::Sample;
use crate::stream::RemoteFeed;
use crate::streams::Streams;

/// Reads samples from one table, one at a time.
///
/// A `Sampler` is also a [`Stream`] of results.
///
/// # Example
///
/// ```
/// use relive_client::{Client, Nest, SamplerOptions, Tensor};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("steps", 10)).build()?);
/// for reward in [0.5_f32, 1.5] {
///     client.insert(&Nest::Leaf(Tensor::scalar(reward)), &[("steps", 1.0)]).await?;
/// }
/// let mut sampler = client.sampler("steps", SamplerOptions::default().max_samples(2))?;
/// let mut rewards = Vec::new();
/// while let Some(sample) = sampler.next().await {
///     rewards.extend(sample?.columns()?[0].to_vec::<f32>()?);
/// }
/// assert_eq!(rewards, [0.5, 1.5]);
/// # Ok(())
/// # }
/// ```
///
/// # Prefetching
///
/// When it samples from a server, a sampler starts workers that fetch samples in the background. Each worker requests
/// at most [`max_in_flight_samples_per_worker`](SamplerOptions::max_in_flight_samples_per_worker) samples that the
/// caller has not taken yet. When the sampler is dropped, fetched samples that the caller has not taken are lost. For a
/// table in the same process, a sampler does not prefetch.
///
/// # Errors
///
/// Workers reconnect when a connection is lost. The caller receives an error only if the server remains unreachable for
/// longer than [`unavailable_timeout`](SamplerOptions::unavailable_timeout). After `Timeout` and `Unavailable`, the
/// call can be repeated; all other errors are permanent.
pub struct Sampler {
    feed: Feed,
    taken: VecDeque<Sample>,
    /// Samples of a batch whose call was dropped, which are counted as taken; they come first.
    returned: VecDeque<Sample>,
    /// An error that occurred after part of a batch.
    deferred_error: Option<Error>,
}

/// The source of the samples.
enum Feed {
    Streams {
        feed: Streams,
        /// Credits for samples that the caller has taken.
        credits: usize,
    },
    Local {
        feed: LocalFeed,
        timeout: Option<Duration>,
        /// The number of samples until the end, or `None` if there is no end.
        left: Option<usize>,
    },
}

impl Sampler {
    /// Creates a reader for samples of `table`, as `Client::sampler` does. The reader begins to fetch immediately.
    ///
    /// # Errors
    /// `InvalidArgument` if an option is out of range; `NotFound` for an unknown table in this process.
    pub fn new(backend: &Backend, table: &str, options: &SamplerOptions) -> Result<Sampler> {
        options.validate()?;
        let patience = options.unavailable_timeout.unwrap_or(backend.timeout());
        let feed = match backend.target() {
            Target::Server(connection) => {
                let feed = RemoteFeed::watched(connection, table, options, options.capacity(), patience);
                Feed::Streams { feed: Streams::One(feed), credits: 0 }
            }
            Target::Fleet(fleet) => {
                let feed = FleetFeed::new(fleet, table, options, options.capacity(), patience)?;
                Feed::Streams { feed: Streams::Many(Box::new(feed)), credits: 0 }
            }
            Target::Process(local) => {
                let feed = LocalFeed::new(local.table("sample", table)?, Arc::clone(local.who()));
                Feed::Local { feed, timeout: options.rate_limiter_timeout, left: options.max_samples }
            }
        };
        Ok(Sampler { feed, taken: VecDeque::new(), returned: VecDeque::new(), deferred_error: None })
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &str {
        match &self.feed {
            Feed::Streams { feed, .. } => feed.table(),
            Feed::Local { feed, .. } => feed.table().name(),
        }
    }

    /// Returns the next sample, or `None` after `max_samples`. Dropping the future loses no samples.
    ///
    /// # Errors
    /// `Timeout` if the rate limiter held samples back for longer than the limiter's timeout; `Unavailable` if the
    /// server remains unreachable. After either error, the call can be repeated. Any other error is permanent, such as
    /// `Cancelled` if a table in this process was closed.
    pub async fn next(&mut self) -> Option<Result<Sample>> {
        self.wait(1).await
    }

    /// Waits for the next sample, for a caller that wants `wanted` samples in total.
    async fn wait(&mut self, wanted: usize) -> Option<Result<Sample>> {
        let mut waiting = Waiting { sampler: self, is_pending: false };
        poll_fn(|cx| waiting.poll(wanted, cx)).await
    }

    /// Like [`next`](Self::next), but waits at most `timeout` for any reason.
    ///
    /// # Errors
    /// `Timeout` if the sample has not arrived; and the errors of [`next`](Self::next).
    pub async fn next_with_timeout(&mut self, timeout: Duration) -> Option<Result<Sample>> {
        match Deadline::after(timeout).run(self.next()).await {
            Some(next) => next,
            None => Some(Err(self.late(timeout))),
        }
    }

    /// Returns the next `num_samples` samples, or fewer if the end or an error comes first. An error that occurs after
    /// some samples is returned by the next call. Dropping the future loses no samples: the next call returns them.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next), if they occur before the first sample.
    pub async fn next_batch(&mut self, num_samples: usize) -> Result<Vec<Sample>> {
        let mut batch = Filling::begin(self, num_samples);
        batch.fill(num_samples).await?;
        Ok(batch.end())
    }

    /// Like [`next_batch`](Self::next_batch), but returns the samples that have arrived within `timeout`. It waits up to
    /// a second longer, in which a server can report why there are no more.
    ///
    /// # Errors
    /// `Timeout` if no sample has arrived, or `Unavailable` if the server is unreachable at that moment; and the errors
    /// of [`next_batch`](Self::next_batch).
    pub async fn next_batch_with_timeout(
        &mut self,
        num_samples: usize,
        timeout: Duration,
    ) -> Result<Vec<Sample>> {
        let mut batch = Filling::begin(self, num_samples);
        let deadline = Deadline::after(timeout.saturating_add(GRACE));
        match deadline.run(batch.fill(num_samples)).await {
            Some(filled) => filled?,
            None if batch.samples.is_empty() => {
                return Err(batch.sampler.feed.outage().unwrap_or_else(|| batch.sampler.late(timeout)));
            }
            None => {}
        }
        Ok(batch.end())
    }

    fn late(&self, timeout: Duration) -> Error {
        let table = self.table();
        let why = self.feed.outage().map_or_else(String::new, |outage| format!(" ({})", as_reason(&outage)));
        let text = format!("sample: Timeout exceeded: no sample of table {table:?} within {timeout:?}{why}");
        Error::new(ErrorKind::Timeout, text)
    }

    /// Polls for the next sample. The caller is going to request `wanted` samples in total.
    fn poll_sample(&mut self, wanted: usize, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        if let Some(sample) = self.returned.pop_front() {
            return Poll::Ready(Some(Ok(sample)));
        }
        if let Some(error) = self.deferred_error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        loop {
            if let Some(sample) = self.taken.pop_front() {
                self.feed.count_taken();
                return Poll::Ready(Some(Ok(sample)));
            }
            match ready!(self.feed.poll_take(wanted, &mut self.taken, cx)) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// A batch that is not complete yet. If it is dropped, its samples go back to the sampler.
struct Filling<'s> {
    sampler: &'s mut Sampler,
    samples: Vec<Sample>,
}

impl<'s> Filling<'s> {
    fn begin(sampler: &'s mut Sampler, num_samples: usize) -> Filling<'s> {
        let samples = Vec::with_capacity(num_samples.min(sampler.taken.len().max(64)));
        Filling { sampler, samples }
    }

    /// Adds samples until there are `num_samples`, or until the end or an error.
    async fn fill(&mut self, num_samples: usize) -> Result<()> {
        while self.samples.len() < num_samples {
            match self.sampler.wait(num_samples - self.samples.len()).await {
                Some(Ok(sample)) => self.samples.push(sample),
                Some(Err(error)) if self.samples.is_empty() => return Err(error),
                Some(Err(error)) => {
                    self.sampler.deferred_error = Some(error);
                    break;
                }
                None => break,
            }
        }
        Ok(())
    }

    fn end(mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        for sample in self.samples.drain(..).rev() {
            self.sampler.returned.push_front(sample);
        }
    }
}

/// A call that waits for a sample. If it is dropped while it waits, the sampler has no caller until the next call.
struct Waiting<'s> {
    sampler: &'s mut Sampler,
    is_pending: bool,
}

impl Waiting<'_> {
    fn poll(&mut self, wanted: usize, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        let polled = self.sampler.poll_sample(wanted, cx);
        self.is_pending = polled.is_pending();
        polled
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_pending {
            self.sampler.feed.caller_left();
        }
    }
}

impl Feed {
    fn poll_take(
        &mut self,
        wanted: usize,
        into: &mut VecDeque<Sample>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<()>>> {
        match self {
            Feed::Streams { feed, credits } => feed.poll_take(std::mem::take(credits), into, cx),
            Feed::Local { left: Some(0), .. } => Poll::Ready(None),
            Feed::Local { feed, timeout, left } => {
                let taken =
                    ready!(feed.poll_take(left.map_or(wanted, |left| left.min(wanted)), *timeout, into, cx));
                if let Some(left) = left {
                    *left = left.saturating_sub(into.len());
                }
                Poll::Ready(Some(taken.map_err(|error| engine_error("sample", error))))
            }
        }
    }

    /// Records that nobody waits for a sample at the moment.
    fn caller_left(&self) {
        if let Feed::Streams { feed, .. } = self {
            feed.caller_left();
        }
    }

    /// Returns the error for servers that are unreachable at the moment.
    fn outage(&self) -> Option<Error> {
        match self {
            Feed::Streams { feed, .. } => feed.outage(),
            Feed::Local { .. } => None,
        }
    }

    /// Reports taken samples to the workers, several at a time.
    fn count_taken(&mut self) {
        let Feed::Streams { feed, credits } = self else { return };
        *credits += 1;
        if *credits >= feed.credit_batch() {
            feed.give_back(std::mem::take(credits));
        }
    }
}

impl Stream for Sampler {
    type Item = Result<Sample>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        self.get_mut().poll_sample(1, cx)
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("table", &self.table()).finish_non_exhaustive()
    }
}
