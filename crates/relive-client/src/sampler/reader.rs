//! The sampler that users hold.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::shared::{Shared, Taken};
use super::{Sample, SamplerOptions, worker};
use crate::client::{Client, Connection};
use crate::deadline::Deadline;
use crate::{Error, ErrorKind, Result};

/// Reads samples of one table, some of them ahead of their use.
///
/// Workers fetch in the background, at most as many samples as the options allow. A lost connection is made again
/// without the caller noticing, unless it takes too long. Dropping a sampler ends its streams; what was fetched and not
/// taken is lost.
///
/// It is also a [`Stream`] of results.
///
/// ```no_run
/// use relive_client::{Client, SamplerOptions};
///
/// # async fn run() -> Result<(), relive_client::Error> {
/// let client = Client::connect("localhost:8000")?;
/// let mut sampler = client.sampler("replay", SamplerOptions::default().max_samples(1_000))?;
/// while let Some(sample) = sampler.next().await {
///     let sample = sample?;
///     println!("{} with probability {}", sample.info().key, sample.info().probability);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Sampler {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    taken: VecDeque<Sample>,
    /// Credits of samples that the caller took.
    credits: usize,
    give_up: Option<Pin<Box<Sleep>>>,
    /// An error that came after a part of a batch.
    put_off: Option<Error>,
}

impl Sampler {
    pub(crate) fn new(client: &Client, table: &str, options: &SamplerOptions) -> Result<Sampler> {
        options.validate()?;
        let Connection::Remote(remote) = client.connection() else {
            let text = "sample: tables of this process cannot be sampled yet";
            return Err(Error::new(ErrorKind::Unimplemented, text));
        };
        let unavailable_timeout = options.unavailable_timeout.unwrap_or(client.options().timeout);
        let shared = Arc::new(Shared::new(table, options, unavailable_timeout));
        let spawn = |index| tokio::spawn(worker::run(Arc::clone(&shared), index, remote.stub()));
        let workers = (0..options.useful_workers()).map(spawn).collect();
        Ok(Sampler { shared, workers, taken: VecDeque::new(), credits: 0, give_up: None, put_off: None })
    }

    /// The table that is read.
    pub fn table(&self) -> &str {
        self.shared.table()
    }

    /// The next sample; none after `max_samples`. Dropping the future loses nothing.
    ///
    /// # Errors
    /// `Timeout` when the rate limiter let nothing through within its timeout, `Unavailable` when the server stays away;
    /// after both the sampler can be asked again. Any other error is permanent.
    pub async fn next(&mut self) -> Option<Result<Sample>> {
        poll_fn(|cx| self.poll_sample(cx)).await
    }

    /// [`next`](Self::next), waiting no longer than `timeout` whatever the reason.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_with_timeout(&mut self, timeout: Duration) -> Option<Result<Sample>> {
        match Deadline::after(timeout).run(self.next()).await {
            Some(next) => next,
            None => {
                let text = format!(
                    "sample: Timeout exceeded: no sample of table {:?} within {timeout:?}",
                    self.table()
                );
                Some(Err(Error::new(ErrorKind::Timeout, text)))
            }
        }
    }

    /// The next `num_samples` samples; fewer when the end or an error comes first. An error that comes after some samples
    /// is given to the next call.
    ///
    /// # Errors
    /// As [`next`](Self::next), when not a single sample came.
    pub async fn next_batch(&mut self, num_samples: usize) -> Result<Vec<Sample>> {
        let mut batch = Vec::with_capacity(num_samples.min(self.taken.len().max(64)));
        while batch.len() < num_samples {
            match self.next().await {
                Some(Ok(sample)) => batch.push(sample),
                Some(Err(error)) if batch.is_empty() => return Err(error),
                Some(Err(error)) => {
                    self.put_off = Some(error);
                    break;
                }
                None => break,
            }
        }
        Ok(batch)
    }

    fn poll_sample(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        if let Some(error) = self.put_off.take() {
            return Poll::Ready(Some(Err(error)));
        }
        loop {
            if let Some(sample) = self.taken.pop_front() {
                self.count_taken();
                return Poll::Ready(Some(Ok(sample)));
            }
            let credits = std::mem::take(&mut self.credits);
            match self.shared.take(&mut self.taken, credits, cx.waker()) {
                Taken::Samples => self.give_up = None,
                Taken::End => return Poll::Ready(None),
                Taken::Error(error) => return Poll::Ready(Some(Err(error))),
                Taken::Nothing { give_up_at } => return self.poll_give_up(give_up_at, cx).map(Some),
            }
        }
    }

    fn count_taken(&mut self) {
        self.credits += 1;
        if self.credits >= self.shared.credit_batch() {
            self.shared.give_back(std::mem::take(&mut self.credits));
        }
    }

    fn poll_give_up(&mut self, at: Option<Instant>, cx: &mut Context<'_>) -> Poll<Result<Sample>> {
        let Some(at) = at else {
            self.give_up = None;
            return Poll::Pending;
        };
        let timer = self.give_up.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        std::task::ready!(timer.as_mut().poll(cx));
        self.give_up = None;
        Poll::Ready(Err(self.shared.unavailable()))
    }
}

impl Stream for Sampler {
    type Item = Result<Sample>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        self.get_mut().poll_sample(cx)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
        self.shared.close();
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("table", &self.table()).finish_non_exhaustive()
    }
}
