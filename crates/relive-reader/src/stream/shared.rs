//! The state that a sampler shares with its workers, behind one lock.
//!
//! A *credit* is the right to request one sample. A worker spends credits with each request; the sampler returns them
//! when its caller takes samples. Invariant: the credits, the samples that have been requested but not received, and
//! the samples that have been received but not taken add up to the capacity, which is the total that the caller has
//! granted but not used.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use relive_connection::{Error, ErrorKind, HEALTHY_LIFE, Result, status_error};
use relive_wire::codec;
use relive_wire::reverb::{SampleStreamRequest, Timeout};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::options::SamplerOptions;
use crate::outage::{Outage, no_server};
use crate::samples::Sample;

/// The next request is sent before the previous one has completed if at least `1 / n` of a worker's capacity is free,
/// where `n` is this number.
const PIPELINE_FRACTION: usize = 4;

/// How long a worker waits before it reads ahead again after the limiter's timeout, if no caller waits: with a timeout
/// of 0, it would otherwise open streams without a pause.
const READ_AHEAD_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Shared {
    table: String,
    max_in_flight: usize,
    max_samples_per_stream: usize,
    limiter_timeout_ms: i64,
    unavailable_timeout: Duration,
    state: Mutex<Credits>,
    /// Notifies workers that the caller is waiting for samples again.
    caller_is_back: Notify,
}

#[derive(Debug)]
struct Credits {
    /// Whether the sampler has been dropped.
    closed: bool,
    /// Whether any samples have arrived.
    has_delivered: bool,
    ready: VecDeque<Sample>,
    credits: usize,
    /// The number of samples that no worker has requested yet, or `None` if there is no end.
    left: Option<usize>,
    /// A permanent error, which every later call returns.
    failure: Option<Error>,
    /// The limiter's timeout error, which is returned once.
    timeout: Option<Error>,
    caller: Option<Waker>,
    outage: Option<Outage>,
    workers: Vec<StreamState>,
}

#[derive(Debug, Default)]
struct StreamState {
    /// The number of the current stream.
    stream: u64,
    /// The number of samples requested on this stream.
    requested: usize,
    /// The time of the first request on the current stream: requests are polled only on an established connection.
    established: Option<Instant>,
    /// The number of samples that have been requested but not received.
    outstanding: usize,
    /// The sending half of the stream, while it has nothing to request.
    idle: Option<Waker>,
}

/// The next action of a worker's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextRequest {
    /// Request that many samples.
    Request(usize),
    /// Wait for a change.
    Wait,
    /// Close: all samples that the worker may request have arrived.
    End,
}

/// The result of an attempt to take samples.
pub(super) enum TakeResult {
    /// Samples were added to the caller's list.
    Samples,
    /// There are no more samples.
    End,
    Error(Error),
    /// There are no samples yet. If the server is unreachable, contains the time at which to give up.
    Nothing {
        give_up_at: Option<Instant>,
    },
}

impl Shared {
    /// Creates the state for workers that together may initially request `credits` samples.
    pub(super) fn new(
        table: &str,
        options: &SamplerOptions,
        credits: usize,
        unavailable_timeout: Duration,
    ) -> Shared {
        let workers = options.useful_workers();
        let state = Credits {
            ready: VecDeque::new(),
            credits,
            left: options.max_samples,
            failure: None,
            timeout: None,
            caller: None,
            outage: None,
            closed: false,
            has_delivered: false,
            workers: (0..workers).map(|_| StreamState::default()).collect(),
        };
        Shared {
            table: table.to_owned(),
            max_in_flight: options.max_in_flight,
            max_samples_per_stream: options.max_samples_per_stream,
            limiter_timeout_ms: options.limiter_timeout_ms(),
            unavailable_timeout,
            state: Mutex::new(state),
            caller_is_back: Notify::new(),
        }
    }

    pub(super) fn table(&self) -> &str {
        &self.table
    }

    // For the sampler.

    /// Returns how many credits should be handed back together.
    pub(super) fn credit_batch(&self) -> usize {
        (self.max_in_flight / PIPELINE_FRACTION).max(1)
    }

    /// Returns the number of samples that have arrived but have not been taken, and the number of samples that have
    /// been requested but have not arrived.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.ready.len(), state.workers.iter().map(|worker| worker.outstanding).sum())
    }

    /// Returns credits.
    pub(super) fn give_back(&self, credits: usize) {
        let mut state = self.state.lock();
        state.credits += credits;
        self.wake_idle_workers(state);
    }

    /// Hands credits back and takes all samples that are ready.
    pub(super) fn take(&self, into: &mut VecDeque<Sample>, credits: usize, waker: &Waker) -> TakeResult {
        let mut state = self.state.lock();
        state.credits += credits;
        let taken = state.take(into, self.unavailable_timeout);
        state.caller = matches!(taken, TakeResult::Nothing { .. }).then(|| waker.clone());
        let waits = state.caller.is_some();
        self.wake_idle_workers(state);
        if waits {
            self.caller_is_back.notify_waiters();
        }
        taken
    }

    /// Records that the caller stopped waiting.
    pub(super) fn caller_left(&self) {
        // A waker may run code of its executor when it is dropped.
        let caller = self.state.lock().caller.take();
        drop(caller);
    }

    /// Returns the error for a server that remains unreachable.
    pub(super) fn unavailable(&self) -> Error {
        let outage = self.state.lock().outage.take();
        let unknown = || no_server(&self.table, self.unavailable_timeout, "");
        outage.map_or_else(unknown, |outage| outage.error(&self.table))
    }

    /// Returns the error for a server that is unreachable at the moment, for a caller that stops waiting.
    pub(super) fn outage(&self) -> Option<Error> {
        self.state.lock().current_outage().map(|outage| outage.error(&self.table))
    }

    fn wake_idle_workers(&self, mut state: parking_lot::MutexGuard<'_, Credits>) {
        let mut wakers: Vec<Waker> = Vec::new();
        for worker in 0..state.workers.len() {
            if self.next_request(&state, worker) != NextRequest::Wait {
                wakers.extend(state.workers.get_mut(worker).and_then(|worker| worker.idle.take()));
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the sending half of every stream. As long as it is open, the transport keeps the stream, and the server
    /// does not notice that the reader is gone.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let wakers: Vec<Waker> = state.workers.iter_mut().filter_map(|worker| worker.idle.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    // For the workers.

    /// Returns the number of a new stream, or `None` when the worker is done.
    pub(super) fn begin_stream(&self, worker: usize) -> Option<u64> {
        let mut state = self.state.lock();
        if state.failure.is_some() || state.left == Some(0) {
            return None;
        }
        let worker = state.workers.get_mut(worker)?;
        worker.stream += 1;
        worker.requested = 0;
        Some(worker.stream)
    }

    /// Reclaims the outstanding requests on a stream that ended. Returns whether there were any outstanding requests.
    /// If the stream was healthy, an earlier outage is over.
    pub(super) fn end_stream(&self, worker: usize) -> bool {
        let mut state = self.state.lock();
        let Some(worker) = state.workers.get_mut(worker) else { return false };
        // Requests that are polled from now on do not belong to a stream.
        worker.stream += 1;
        worker.idle = None;
        let owed = std::mem::take(&mut worker.outstanding);
        let healthy_since = worker.established.take().filter(|at| at.elapsed() >= HEALTHY_LIFE);
        state.outage.take_if(|outage| healthy_since.is_some_and(|at| at >= outage.since));
        state.credits += owed;
        if let Some(left) = &mut state.left {
            *left += owed;
        }
        owed > 0
    }

    /// Returns the next request for a worker's stream, or `None` to end the stream.
    pub(super) fn poll_request(
        &self,
        worker: usize,
        stream: u64,
        cx: &Context<'_>,
    ) -> Poll<Option<SampleStreamRequest>> {
        let mut state = self.state.lock();
        let plan = self.next_request(&state, worker);
        let closed = state.closed;
        let Some(mine) = state.workers.get_mut(worker).filter(|mine| mine.stream == stream && !closed) else {
            return Poll::Ready(None);
        };
        let samples = match plan {
            NextRequest::Request(samples) => samples,
            NextRequest::End => return Poll::Ready(None),
            NextRequest::Wait => {
                mine.idle = Some(cx.waker().clone());
                return Poll::Pending;
            }
        };
        mine.requested += samples;
        mine.established.get_or_insert_with(Instant::now);
        mine.outstanding += samples;
        state.credits -= samples;
        if let Some(left) = &mut state.left {
            *left -= samples;
        }
        Poll::Ready(Some(SampleStreamRequest {
            table: self.table.clone(),
            num_samples: i64::try_from(samples).unwrap_or(i64::MAX),
            rate_limiter_timeout: Some(Timeout { milliseconds: self.limiter_timeout_ms }),
            relive_codecs: codec::known(),
            ..SampleStreamRequest::default()
        }))
    }

    /// Ends an outage, because the server has answered on a worker's stream.
    pub(super) fn note_answer(&self) {
        self.state.lock().outage = None;
    }

    /// Returns the next action of the worker's stream.
    fn next_request(&self, state: &Credits, worker: usize) -> NextRequest {
        let Some(mine) = state.workers.get(worker) else { return NextRequest::End };
        let left =
            state.left.unwrap_or(usize::MAX).min(self.max_samples_per_stream.saturating_sub(mine.requested));
        let room = state.credits.min(self.max_in_flight.saturating_sub(mine.outstanding));
        let samples = left.min(room);
        let worth_it = mine.outstanding == 0 || samples >= self.credit_batch() || samples == left;
        match samples {
            0 if left == 0 && mine.outstanding == 0 => NextRequest::End,
            0 => NextRequest::Wait,
            samples if worth_it => NextRequest::Request(samples),
            _ => NextRequest::Wait,
        }
    }

    /// Delivers samples to the caller.
    pub(super) fn deliver(&self, worker: usize, samples: &mut Vec<Sample>) -> Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let Some(mine) = state.workers.get_mut(worker) else { return Ok(()) };
        let Some(outstanding) = mine.outstanding.checked_sub(samples.len()) else {
            let text =
                format!("sample: the server sent more samples of table {:?} than requested", self.table);
            return Err(Error::new(ErrorKind::Protocol, text));
        };
        mine.outstanding = outstanding;
        state.ready.extend(samples.drain(..));
        state.has_delivered = true;
        state.outage = None;
        let caller = state.caller.take();
        self.wake_idle_workers(state);
        if let Some(caller) = caller {
            caller.wake();
        }
        Ok(())
    }

    /// Records the limiter's timeout. The worker then pauses until the caller waits again, so that a later wait does
    /// not receive the timeout of an earlier one. If no caller waits, the worker pauses only briefly, and then reads
    /// ahead again.
    pub(super) async fn limiter_timed_out(&self, status: Status) {
        let caller = {
            let mut state = self.state.lock();
            // The status is an answer.
            state.outage = None;
            let caller = state.caller.take();
            if caller.is_some() {
                state.timeout = Some(status_error("sample", status));
            }
            caller
        };
        match caller {
            Some(caller) => {
                caller.wake();
                self.wait_for_caller().await;
            }
            None => drop(timeout(READ_AHEAD_PAUSE, self.wait_for_caller()).await),
        }
    }

    /// Waits until a caller is waiting and has no timeout left to receive.
    async fn wait_for_caller(&self) {
        loop {
            let back = self.caller_is_back.notified();
            tokio::pin!(back);
            back.as_mut().enable();
            {
                let state = self.state.lock();
                if state.caller.is_some() && state.timeout.is_none() {
                    return;
                }
            }
            back.await;
        }
    }

    /// Returns a lower bound on the number of inserts into the table, which is derived from the samples that have
    /// arrived since the last call.
    pub(super) fn take_known_inserts(&self) -> Option<(Arc<str>, u64)> {
        std::mem::take(&mut self.state.lock().has_delivered).then(|| (Arc::from(self.table.as_str()), 1))
    }

    /// Records the reason why a stream broke, before the stream is reopened.
    pub(super) fn stream_broke(&self, text: &str) {
        let mut state = self.state.lock();
        state.outage = Some(Outage::continued(state.outage.take(), text.to_owned()));
        // Wakes the caller, so that it recomputes its deadline.
        let caller = state.caller.clone();
        drop(state);
        if let Some(caller) = caller {
            caller.wake();
        }
    }

    /// Records a permanent error.
    pub(super) fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        state.failure = Some(error);
        let caller = state.caller.take();
        drop(state);
        if let Some(caller) = caller {
            caller.wake();
        }
    }
}

impl Credits {
    fn take(&mut self, into: &mut VecDeque<Sample>, unavailable_timeout: Duration) -> TakeResult {
        if !self.ready.is_empty() {
            self.timeout = None;
            if into.is_empty() {
                std::mem::swap(into, &mut self.ready);
            } else {
                into.append(&mut self.ready);
            }
            return TakeResult::Samples;
        }
        if let Some(failure) = &self.failure {
            return TakeResult::Error(failure.clone());
        }
        if let Some(timeout) = self.timeout.take() {
            return TakeResult::Error(timeout);
        }
        if self.left == Some(0) && self.workers.iter().all(|worker| worker.outstanding == 0) {
            return TakeResult::End;
        }
        let give_up_at =
            self.current_outage().and_then(|outage| outage.since.checked_add(unavailable_timeout));
        TakeResult::Nothing { give_up_at }
    }

    /// Returns the outage, unless a stream has been established since it began. Such a stream may be quiet, because
    /// some servers send nothing before the first sample. If it breaks soon, the outage continues.
    fn current_outage(&self) -> Option<&Outage> {
        let is_back =
            |since| self.workers.iter().any(|worker| worker.established.is_some_and(|at| at >= since));
        self.outage.as_ref().filter(|outage| !is_back(outage.since))
    }
}

/// The sending half of a worker's stream.
pub(super) struct Requests {
    pub(super) shared: Arc<Shared>,
    pub(super) worker: usize,
    pub(super) stream: u64,
}

impl futures_core::Stream for Requests {
    type Item = SampleStreamRequest;

    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SampleStreamRequest>> {
        self.shared.poll_request(self.worker, self.stream, cx)
    }
}

#[cfg(test)]
mod tests;
