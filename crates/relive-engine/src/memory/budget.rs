//! The bound on the memory of an engine's chunks. Writers wait when it is reached, and eventually fail.
//!
//! The bound counts chunks wherever they are: in tables, in the streams that send them, or with readers that still hold
//! them. Writers therefore wait before they send chunks ([`MemoryGate`](crate::MemoryGate)), not when they insert
//! items.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use relive_tensor::Ledger;
use tokio::time::Instant;

use super::marks::Marks;
use super::status::{MemoryStatus, MemoryWaiter};
use crate::limits::{MAX_LISTED_WAITERS, MEMORY_RECHECK, MEMORY_RECHECK_PER_WAITER};
use crate::sync::Mutex;

/// The ledger of all chunks, its bound, and the writers that wait for memory.
#[derive(Debug)]
pub(crate) struct Memory {
    ledger: Arc<Ledger>,
    pub(crate) max_bytes: Option<u64>,
    /// The number of bytes at which writers wait: the bound, or less if a disk tier needs the rest.
    pub(crate) gate_bytes: Option<u64>,
    /// The number of bytes that writers are about to send.
    reserved_bytes: AtomicU64,
    pub(crate) longest_wait: Duration,
    /// The number of waiters, which can be read without the lock.
    waiting: AtomicUsize,
    closed: AtomicBool,
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    next_id: u64,
    /// The waiting writers, in order of arrival.
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    who: Arc<str>,
    since: Instant,
    /// The waker is taken when the waiter is woken, so that the next wake-up goes to the next waiter.
    waker: Option<Waker>,
}

impl Memory {
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        max_bytes: Option<u64>,
        has_tier: bool,
        longest_wait: Duration,
    ) -> Self {
        let gate = |max_bytes| if has_tier { Marks::of(max_bytes).gate_bytes } else { max_bytes };
        Self {
            ledger,
            max_bytes,
            gate_bytes: max_bytes.map(gate),
            reserved_bytes: AtomicU64::new(0),
            longest_wait,
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            waiters: Mutex::new(Waiters::default()),
        }
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Wakes the first waiter that is still asleep if memory is available. Called whenever chunks may have been freed;
    /// no table may be locked.
    pub(crate) fn freed(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 || !self.is_open() {
            return;
        }
        let waker = self.waiters.lock().queue.iter_mut().find_map(|waiter| waiter.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Opens the gate for all writers, because closed tables themselves refuse inserts.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let wakers: Vec<Waker> =
            self.waiters.lock().queue.iter_mut().filter_map(|waiter| waiter.waker.take()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn status(&self) -> MemoryStatus {
        let waiters = self.waiters.lock();
        let listed: Vec<MemoryWaiter> = waiters
            .queue
            .iter()
            .take(MAX_LISTED_WAITERS)
            .map(|waiter| MemoryWaiter { who: Arc::clone(&waiter.who), waiting: waiter.since.elapsed() })
            .collect();
        let waiters_not_listed = waiters.queue.len() - listed.len();
        drop(waiters);
        MemoryStatus {
            chunks: self.ledger.snapshot(),
            max_bytes: self.max_bytes,
            gate_bytes: self.gate_bytes,
            reserved_bytes: self.reserved_bytes.load(Ordering::Relaxed),
            waiters: listed,
            waiters_not_listed,
            spill_error: None,
        }
    }

    /// Returns whether writers may proceed now.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open_beside(0)
    }

    /// Returns whether a writer may proceed if it has sent `own_bytes` that are not yet in a table.
    pub(crate) fn is_open_beside(&self, own_bytes: u64) -> bool {
        let taken = || self.ledger.snapshot().resident_bytes() + self.reserved_bytes.load(Ordering::Relaxed);
        let within = |max| taken().saturating_sub(own_bytes) <= max;
        self.gate_bytes.is_none_or(within) || self.closed.load(Ordering::Relaxed)
    }

    /// Counts `bytes` that a writer is about to send.
    pub(crate) fn reserve(&self, bytes: u64) {
        self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reverts a [`reserve`](Self::reserve).
    pub(crate) fn unreserve(&self, bytes: u64) {
        self.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.freed();
    }

    /// Appends a writer to the queue and returns its number.
    pub(crate) fn enter(&self, who: &Arc<str>, since: Instant) -> u64 {
        let mut waiters = self.waiters.lock();
        let id = waiters.next_id;
        waiters.next_id += 1;
        waiters.queue.push_back(Waiter { id, who: Arc::clone(who), since, waker: None });
        self.waiting.store(waiters.queue.len(), Ordering::Relaxed);
        id
    }

    pub(crate) fn set_waker(&self, id: u64, waker: &Waker) {
        let mut waiters = self.waiters.lock();
        if let Ok(at) = waiters.queue.binary_search_by_key(&id, |waiter| waiter.id)
            && let Some(waiter) = waiters.queue.get_mut(at)
        {
            waiter.waker = Some(waker.clone());
        }
    }

    pub(crate) fn leave(&self, id: u64) {
        let mut waiters = self.waiters.lock();
        if let Ok(at) = waiters.queue.binary_search_by_key(&id, |waiter| waiter.id) {
            waiters.queue.remove(at);
        }
        self.waiting.store(waiters.queue.len(), Ordering::Relaxed);
    }

    /// The time between two checks by a waiter. It grows with the number of waiters, so that all checks together cost
    /// little.
    pub(crate) fn recheck_after(&self) -> Duration {
        let waiting = u32::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        MEMORY_RECHECK + MEMORY_RECHECK_PER_WAITER.saturating_mul(waiting)
    }
}
