//! The requests that wait for samples of a sharded table: plain data under one lock.

use std::collections::VecDeque;

use crate::error::EngineError;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::table::WaitingSample;

/// Requests, in order of arrival.
pub(super) struct RequestQueue {
    waiting: Mutex<WaitingRequests>,
    /// The number of waiting requests, which can be read without the lock.
    count: AtomicUsize,
}

pub(super) struct WaitingRequests {
    pub(super) requests: VecDeque<WaitingSample>,
    pub(super) next_id: u64,
    pub(super) ended: Option<EngineError>,
}

/// The number of a request that has never waited.
pub(super) const NEVER_WAITED: u64 = 0;

impl RequestQueue {
    pub(super) fn new() -> Self {
        let waiting = WaitingRequests { requests: VecDeque::new(), next_id: NEVER_WAITED + 1, ended: None };
        Self { waiting: Mutex::new(waiting), count: AtomicUsize::new(0) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WaitingRequests> {
        self.waiting.lock()
    }

    /// Returns whether no request is waiting, without taking the lock.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Publishes the number of waiting requests.
    pub(super) fn publish_len(&self, waiting: &WaitingRequests) {
        self.count.store(waiting.requests.len(), Ordering::Relaxed);
    }

    pub(super) fn remove(&self, id: u64) -> Option<WaitingSample> {
        let mut waiting = self.lock();
        let at = waiting.requests.binary_search_by_key(&id, |waiter| waiter.id).ok()?;
        let removed = waiting.requests.remove(at);
        self.publish_len(&waiting);
        removed
    }
}
