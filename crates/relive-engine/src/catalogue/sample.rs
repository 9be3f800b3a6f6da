//! A sample request as a future. The request is served immediately if the limiter allows it, and otherwise in queue
//! order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use relive_table::Sampled;
use tokio::time::Sleep;

use super::handle::TableHandle;
use crate::error::EngineError;
use crate::memory::Fetch;
use crate::table::{SampleRequest, SampleResult, Slot};

impl TableHandle {
    /// Requests a batch of samples; see [`SampleFuture`].
    pub fn sample(&self, request: SampleRequest) -> SampleFuture {
        SampleFuture::new(self.clone(), request)
    }
}

/// Counts samples as undelivered in the status of their table when it is dropped, except for those that were delivered.
///
/// A server that takes samples for a client keeps this value until the samples are on their way, so that samples are
/// counted if the client disconnects, or if they cannot be sent.
#[derive(Debug)]
#[must_use = "samples are counted as undelivered when this value is dropped"]
pub struct Undelivered {
    table: TableHandle,
    samples: usize,
}

impl TableHandle {
    /// Counts `samples`, which were taken from this table, as undelivered unless they are delivered.
    pub fn undelivered(&self, samples: usize) -> Undelivered {
        Undelivered { table: self.clone(), samples }
    }
}

impl Undelivered {
    /// Adds samples that were taken from the table.
    pub fn add(&mut self, samples: usize) {
        self.samples += samples;
    }

    /// Records that this many of the samples have been delivered.
    pub fn delivered(&mut self, samples: usize) {
        self.samples = self.samples.saturating_sub(samples);
    }

    /// Records that all samples have been delivered.
    pub fn delivered_all(mut self) {
        self.samples = 0;
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        self.table.front().count_undelivered(self.samples);
    }
}

/// A pending batch of samples: at least one sample, and at most as many as were requested.
///
/// The first poll makes the request. Dropping the future withdraws the request, so that it takes no more samples.
/// Samples that were taken but not delivered are counted as undelivered in the table's status.
#[derive(Debug)]
#[must_use = "nothing is sampled until the future is polled"]
pub struct SampleFuture {
    table: TableHandle,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Unsent(SampleRequest),
    WaitingRequest(WaitingRequest),
    Fetching(Fetch),
    Done,
}

#[derive(Debug)]
struct WaitingRequest {
    id: u64,
    slot: Arc<Slot<SampleResult>>,
    since: Instant,
    deadline: Deadline,
}

/// Most requests are served immediately, so a timer is created only for requests that wait.
#[derive(Debug)]
enum Deadline {
    Never,
    After(Duration),
    Running(Pin<Box<Sleep>>),
}

impl SampleFuture {
    pub(crate) fn new(table: TableHandle, request: SampleRequest) -> Self {
        Self { table, progress: Progress::Unsent(request) }
    }

    /// Withdraws the request, as dropping it does, but returns the samples that were already taken, so that none are
    /// lost.
    pub fn withdraw(mut self) -> Vec<Sampled> {
        match std::mem::replace(&mut self.progress, Progress::Done) {
            Progress::WaitingRequest(waiting) => self.table.withdraw_sample(waiting.id, &waiting.slot),
            Progress::Fetching(fetch) => fetch.into_samples(),
            Progress::Unsent(_) | Progress::Done => Vec::new(),
        }
    }

    fn ask(&self, request: SampleRequest) -> Result<WaitingRequest, EngineError> {
        let since = Instant::now();
        let deadline = request.timeout.map_or(Deadline::Never, Deadline::After);
        let (id, slot) = self.table.enqueue_sample(request, since)?;
        Ok(WaitingRequest { id, slot, since, deadline })
    }
}

impl SampleFuture {
    /// Reads any of the samples' data that is on disk into memory, and then returns the samples.
    fn hand_over(&mut self, result: SampleResult, cx: &mut Context<'_>) -> Poll<SampleResult> {
        let Some(tier) = self.table.disk_tier() else { return Poll::Ready(result) };
        match tier.fetch(self.table.name(), result?) {
            Ok(samples) => Poll::Ready(Ok(samples)),
            Err(fetch) => self.poll_fetch(fetch, cx),
        }
    }

    fn poll_fetch(&mut self, mut fetch: Fetch, cx: &mut Context<'_>) -> Poll<SampleResult> {
        let result = Pin::new(&mut fetch).poll(cx);
        match &result {
            Poll::Pending => self.progress = Progress::Fetching(fetch),
            Poll::Ready(Err(_)) => self.table.front().count_undelivered(fetch.len()),
            Poll::Ready(Ok(_)) => {}
        }
        result
    }
}

impl Future for SampleFuture {
    type Output = SampleResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<SampleResult> {
        let mut waiting = match std::mem::replace(&mut self.progress, Progress::Done) {
            Progress::Unsent(request) => self.ask(request)?,
            Progress::WaitingRequest(waiting) => waiting,
            Progress::Fetching(fetch) => return self.poll_fetch(fetch, cx),
            Progress::Done => return Poll::Pending,
        };
        if let Poll::Ready(result) = waiting.slot.poll(cx) {
            return self.hand_over(result, cx);
        }
        if waiting.deadline.poll(cx).is_ready() {
            let last = self.table.give_up_sample(waiting.id, &waiting.slot, waiting.since);
            return self.hand_over(last, cx);
        }
        self.progress = Progress::WaitingRequest(waiting);
        Poll::Pending
    }
}

impl Deadline {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Never => Poll::Pending,
            Self::After(Duration::ZERO) => Poll::Ready(()),
            Self::After(duration) => {
                let mut timer = Box::pin(tokio::time::sleep(*duration));
                let state = timer.as_mut().poll(cx);
                *self = Self::Running(timer);
                state
            }
            Self::Running(timer) => timer.as_mut().poll(cx),
        }
    }
}

impl Drop for SampleFuture {
    fn drop(&mut self) {
        let lost = match &self.progress {
            Progress::WaitingRequest(waiting) => self.table.withdraw_sample(waiting.id, &waiting.slot).len(),
            Progress::Fetching(fetch) => fetch.len(),
            Progress::Unsent(_) | Progress::Done => 0,
        };
        self.table.front().count_undelivered(lost);
    }
}
