//! The state that a reader of batches shares with its connection, behind one lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use relive_connection::{Error, HEALTHY_LIFE};
use tokio::time::Instant;

use super::request_sender::{BatchRequest, RequestSender};
use crate::outage::{Outage, no_server};
use crate::samples::Sample;
use crate::samples::SampleBatch;

/// The number of taken bytes after which the server is notified, even without a request and in the middle of a batch.
/// It must be less than the server's window.
const ACKNOWLEDGED_BYTES: u64 = 16 << 20;

/// State shared by a connection and its reader: the batches that have arrived, and the requests for more.
#[derive(Debug)]
pub(super) struct Shared {
    table: Arc<str>,
    /// The number of batches that are requested in advance.
    ahead: u64,
    patience: Duration,
    state: Mutex<Arrivals>,
    requests: RequestSender,
}

#[derive(Debug, Default)]
struct Arrivals {
    ready: VecDeque<Ready>,
    /// The received part of an incomplete batch, and the number of its bytes that have not been acknowledged to the
    /// server yet.
    part: (Vec<Sample>, u64),
    /// The number of batches that the connection may request.
    credits: u64,
    /// The number of batches that have been requested but have not arrived.
    outstanding: u64,
    withdrawal: Withdrawal,
    /// What a sample lacked when the last requests were withdrawn.
    reason: String,
    /// The number of batches that may still be requested, or `None` if there is no end.
    left: Option<u64>,
    taken_bytes: u64,
    caller: Option<Waker>,
    outage: Option<Outage>,
    /// The time at which the current connection was established, or `None` without a connection.
    connected: Option<Instant>,
    /// Whether any samples have arrived.
    has_delivered: bool,
    end: Option<End>,
}

/// Whether outstanding requests are being withdrawn.
#[derive(Debug, Default, PartialEq, Eq)]
enum Withdrawal {
    #[default]
    None,
    /// The request to withdraw has not been sent.
    Due,
    /// The request to withdraw has been sent; the server has not confirmed it.
    Sent,
}

#[derive(Debug)]
pub(super) struct Ready {
    pub(super) batch: SampleBatch,
    pub(super) bytes: u64,
}

/// The reason why there are no more batches.
#[derive(Debug, Clone)]
pub(super) enum End {
    Failed(Error),
    /// The server cannot be reached over the bulk path.
    BulkUnavailable,
}

/// The result of an attempt to take a batch.
#[derive(Debug)]
pub(super) enum TakeResult {
    Batch(SampleBatch),
    NoMore,
    /// The bulk path is unavailable. Contains the samples of an incomplete batch that have arrived.
    BulkUnavailable(Vec<Sample>),
    Error(Error),
    Nothing {
        give_up_at: Option<Instant>,
    },
}

impl Shared {
    pub(super) fn new(table: &str, ahead: u64, max_batches: Option<u64>, patience: Duration) -> Shared {
        let state = Arrivals { left: max_batches, ..Arrivals::default() };
        let shared = Shared {
            table: Arc::from(table),
            ahead,
            patience,
            state: Mutex::new(state),
            requests: RequestSender::default(),
        };
        shared.state.lock().allow(ahead);
        shared
    }

    /// How long the server may be unreachable.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn table(&self) -> &Arc<str> {
        &self.table
    }

    /// Returns the number of batches that have arrived, and the number of batches that have been requested but have not
    /// arrived.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        let owed = usize::try_from(state.outstanding + state.credits).unwrap_or(usize::MAX);
        (state.ready.len(), owed)
    }

    /// Takes the next batch. Another batch may then be requested in its place; if none has been requested yet, one is
    /// requested. Each request is for half of `ahead` batches, because each request wakes the server, and each answer
    /// wakes the connection's task.
    pub(super) fn take(&self, waker: &Waker) -> TakeResult {
        let mut state = self.state.lock();
        if let Some(Ready { batch, bytes }) = state.ready.pop_front() {
            state.taken_bytes += bytes;
            state.allow(self.ahead.min(1));
            drop(state);
            self.requests.now(|| self.ask());
            return TakeResult::Batch(batch);
        }
        match &state.end {
            Some(End::Failed(error)) => return TakeResult::Error(error.clone()),
            Some(End::BulkUnavailable) => {
                return TakeResult::BulkUnavailable(std::mem::take(&mut state.part).0);
            }
            None if state.is_over() => return TakeResult::NoMore,
            None => {}
        }
        state.caller = Some(waker.clone());
        let is_first = state.credits + state.outstanding == 0;
        if is_first {
            state.allow(1);
        }
        let outage = state.current_outage();
        let give_up_at = outage.and_then(|outage| outage.since.checked_add(self.patience));
        drop(state);
        if is_first {
            self.requests.now(|| self.ask());
        }
        TakeResult::Nothing { give_up_at }
    }

    /// Withdraws the requests for batches that are not requested in advance, because the caller no longer waits for
    /// them. Samples that the server has already taken still arrive.
    pub(super) fn stop_waiting(&self) {
        if self.ahead > 0 {
            return;
        }
        let mut state = self.state.lock();
        state.caller = None;
        state.reason.clear();
        state.take_back_credits();
        if state.outstanding == 0 || state.withdrawal != Withdrawal::None {
            return;
        }
        state.withdrawal = Withdrawal::Due;
        drop(state);
        self.requests.now(|| self.ask());
    }

    /// Waits until no request is being withdrawn, or until there is something to take. Returns `None` if there is
    /// something to take; otherwise the condition that a sample was waiting for, empty if it is unknown.
    pub(super) fn poll_withdrawn(&self, waker: &Waker) -> Poll<Option<String>> {
        let mut state = self.state.lock();
        if !state.ready.is_empty() || state.end.is_some() {
            return Poll::Ready(None);
        }
        if state.withdrawal == Withdrawal::None {
            return Poll::Ready(Some(std::mem::take(&mut state.reason)));
        }
        state.caller = Some(waker.clone());
        Poll::Pending
    }

    /// Returns the error for a server that remains unreachable.
    pub(super) fn unavailable(&self) -> Error {
        // The next wait starts with the full timeout.
        let outage = self.state.lock().outage.take();
        outage.map_or_else(|| no_server(&self.table, self.patience, ""), |outage| outage.error(&self.table))
    }

    /// Returns the error for a server that is unreachable at the moment, for a caller that stops waiting.
    pub(super) fn outage(&self) -> Option<Error> {
        self.state.lock().current_outage().map(|outage| outage.error(&self.table))
    }

    // For the connection.

    /// Returns the sender of requests.
    pub(super) fn requests(&self) -> &RequestSender {
        &self.requests
    }

    /// Returns the request that is due now, if there is one. The caller must send it.
    pub(super) fn ask(&self) -> Option<BatchRequest> {
        let mut state = self.state.lock();
        if state.withdrawal == Withdrawal::Due {
            state.withdrawal = Withdrawal::Sent;
            let taken_bytes = std::mem::take(&mut state.taken_bytes);
            return Some(BatchRequest { batches: 0, taken_bytes, withdraw: true });
        }
        // A request that is made during a withdrawal could not be distinguished from the withdrawn ones.
        let may_request = state.withdrawal == Withdrawal::None;
        let is_due = state.is_acknowledgement_due() || (may_request && state.is_request_due(self.ahead));
        if !is_due {
            return None;
        }
        let batches = if may_request { std::mem::take(&mut state.credits) } else { 0 };
        state.outstanding += batches;
        Some(BatchRequest::of(batches, std::mem::take(&mut state.taken_bytes)))
    }

    /// Delivers a batch. Returns false if the batch was not requested.
    pub(super) fn deliver(&self, ready: Ready) -> bool {
        let mut state = self.state.lock();
        let Some(outstanding) = state.outstanding.checked_sub(1) else { return false };
        state.outstanding = outstanding;
        (state.outage, state.has_delivered) = (None, true);
        state.ready.push_back(ready);
        wake(state);
        true
    }

    /// Records that the server has withdrawn all requests, and what a sample lacked. Returns false if the server was
    /// not asked to withdraw them.
    pub(super) fn note_withdrawn(&self, reason: String) -> bool {
        let mut state = self.state.lock();
        if state.withdrawal != Withdrawal::Sent {
            return false;
        }
        state.credits += std::mem::take(&mut state.outstanding);
        state.take_back_credits();
        (state.withdrawal, state.reason, state.outage) = (Withdrawal::None, reason, None);
        wake(state);
        true
    }

    /// Returns the number of samples of an incomplete batch.
    pub(super) fn samples_at_hand(&self) -> usize {
        self.state.lock().part.0.len()
    }

    /// Adds samples to the incomplete batch. Returns false if fewer samples were requested.
    pub(super) fn deliver_part(
        &self,
        samples: impl Iterator<Item = Sample>,
        bytes: u64,
        batch_size: usize,
    ) -> bool {
        let batch = {
            let mut state = self.state.lock();
            state.outage = None;
            let (part, part_bytes) = &mut state.part;
            part.extend(samples);
            *part_bytes += bytes;
            if part.len() < batch_size {
                if *part_bytes >= ACKNOWLEDGED_BYTES {
                    state.taken_bytes += std::mem::take(&mut state.part.1);
                    drop(state);
                    self.requests.soon();
                }
                return true;
            }
            std::mem::take(&mut state.part)
        };
        let (samples, bytes) = batch;
        samples.len() == batch_size && self.deliver(Ready { batch: SampleBatch::new(samples), bytes })
    }

    /// Returns a lower bound on the number of inserts into the table, which is derived from the samples that have
    /// arrived since the last call.
    pub(super) fn take_known_inserts(&self) -> Option<(Arc<str>, u64)> {
        std::mem::take(&mut self.state.lock().has_delivered).then(|| (Arc::clone(&self.table), 1))
    }

    /// Records that a connection has been opened. If nobody is waiting for a batch, this ends an outage; otherwise,
    /// only an answer or a connection that lasts does.
    pub(super) fn note_connected(&self) {
        let mut state = self.state.lock();
        state.connected = Some(Instant::now());
        if state.credits + state.outstanding == 0 {
            state.outage = None;
        }
    }

    /// Records that the connection broke. Outstanding batches are requested again.
    pub(super) fn note_outage(&self, text: String) {
        let mut state = self.state.lock();
        state.credits += std::mem::take(&mut state.outstanding);
        if std::mem::take(&mut state.withdrawal) != Withdrawal::None {
            state.take_back_credits();
        }
        (state.taken_bytes, state.part.1) = (0, 0);
        let was_healthy = state.connected.take().is_some_and(|at| at.elapsed() >= HEALTHY_LIFE);
        let same_outage = state.outage.take().filter(|_| !was_healthy);
        state.outage = Some(Outage::continued(same_outage, text));
        wake(state);
    }

    /// Returns whether everything that may be requested has arrived.
    pub(super) fn is_done(&self) -> bool {
        let state = self.state.lock();
        state.left == Some(0) && state.credits == 0 && state.outstanding == 0
    }

    pub(super) fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.end = Some(end);
        wake(state);
    }
}

impl Arrivals {
    fn allow(&mut self, batches: u64) {
        let batches = batches.min(self.left.unwrap_or(u64::MAX));
        self.credits += batches;
        if let Some(left) = &mut self.left {
            *left -= batches;
        }
    }

    /// Takes back the permission to request batches that have not been requested.
    fn take_back_credits(&mut self) {
        let batches = std::mem::take(&mut self.credits);
        if let Some(left) = &mut self.left {
            *left += batches;
        }
    }

    /// Returns whether a request should be sent because enough batches may be requested, or because no further ones can
    /// be added to the request.
    fn is_request_due(&self, ahead: u64) -> bool {
        let is_last = self.outstanding == 0 || self.left == Some(0);
        self.credits > 0 && (self.credits * 2 >= ahead || is_last)
    }

    /// Returns whether the server may need an acknowledgment of the taken bytes before it can send the rest of the
    /// requested batches.
    fn is_acknowledgement_due(&self) -> bool {
        self.outstanding > 0
            && (self.taken_bytes >= ACKNOWLEDGED_BYTES || (self.taken_bytes > 0 && self.credits == 0))
    }

    /// Returns the outage, unless there is a connection. The connection may be quiet because the rate limiter blocks.
    /// If it breaks soon, the outage continues.
    fn current_outage(&self) -> Option<&Outage> {
        self.outage.as_ref().filter(|_| self.connected.is_none())
    }

    fn is_over(&self) -> bool {
        self.left == Some(0) && self.credits == 0 && self.outstanding == 0
    }
}

/// Releases the lock, and then wakes the reader.
fn wake(mut state: MutexGuard<'_, Arrivals>) {
    let caller = state.caller.take();
    drop(state);
    if let Some(caller) = caller {
        caller.wake();
    }
}

#[cfg(test)]
mod tests;
