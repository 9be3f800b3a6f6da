//! The memory status, and the gate at which writers wait for memory.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::shared::Engine;
use crate::error::{EngineError, shortened};
use crate::memory::{Memory, MemoryStatus, bytes, limit};

/// The number of tables that the error for full memory names.
const MAX_TABLES_IN_ERROR: usize = 3;

impl Engine {
    /// Returns the memory of all chunks, and the writers that are waiting for memory.
    #[must_use]
    pub fn memory(&self) -> MemoryStatus {
        MemoryStatus {
            spill_error: self.disk_tier().and_then(|tier| tier.failure()),
            ..self.bound().status()
        }
    }

    /// Creates a gate for one writer. The list of waiters shows the writer as `who`.
    #[must_use]
    pub fn memory_gate(&self, who: &Arc<str>) -> MemoryGate {
        MemoryGate { engine: self.clone(), who: Arc::clone(who), waiting: None, reserved: None }
    }

    fn memory_exhausted(&self, waited: Duration) -> EngineError {
        EngineError::Memory {
            limit: limit(self.bound().max_bytes, self.bound().gate_bytes),
            resident: self.bound().status().used(),
            waited,
            cold: self.cold_failure(),
            largest: self.largest_tables(),
        }
    }

    fn cold_failure(&self) -> String {
        let failure = self.disk_tier().and_then(|tier| tier.failure());
        failure.map_or_else(String::new, |failure| {
            format!(", because chunks cannot be moved to disk ({failure})")
        })
    }

    /// Lists the tables with the most bytes in memory.
    fn largest_tables(&self) -> String {
        let all = self.tables();
        let mut tables: Vec<(u64, &str)> =
            all.iter().map(|table| (table.resident_bytes(), table.name())).collect();
        tables.sort_unstable_by(|a, b| b.cmp(a));
        let mut text = String::new();
        for (resident, name) in tables.iter().take(MAX_TABLES_IN_ERROR) {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(text, "{separator}{} ({})", shortened(name), bytes(*resident));
        }
        text
    }
}

/// The gate at which one writer waits while the engine's chunks exceed [`max_bytes`](crate::EngineBuilder::max_bytes)
/// in memory. A writer checks the gate before it sends chunks, so the total may exceed the bound by the chunks that
/// each writer sends at a time.
///
/// A writer passes the size of the chunks that it has already sent and that no table holds yet. These chunks do not
/// block the writer, because only its own items could free them.
///
/// A waiting writer checks again when a change to a table has freed chunks. It also checks every few milliseconds,
/// because readers free chunks as well. It waits at most [`max_bytes_wait`](crate::EngineBuilder::max_bytes_wait).
/// Without a bound, and once the engine is closed, the gate is always open. Dropping the gate ends the wait.
///
/// ```
/// use relive_engine::Engine;
/// use relive_table::TableConfig;
///
/// let engine = Engine::builder().table(TableConfig::new("replay")).max_bytes(1 << 30).build()?;
/// let gate = engine.memory_gate(&"actor 7".into());
/// assert!(gate.is_open());
/// assert_eq!(engine.memory().max_bytes, Some(1 << 30));
/// # Ok::<(), relive_engine::BuildError>(())
/// ```
#[derive(Debug)]
pub struct MemoryGate {
    engine: Engine,
    who: Arc<str>,
    waiting: Option<MemoryWait>,
    reserved: Option<u64>,
}

#[derive(Debug)]
struct MemoryWait {
    id: u64,
    since: Instant,
    recheck: Pin<Box<Sleep>>,
}

impl MemoryGate {
    /// Returns whether the writer may proceed now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.engine.bound().is_open()
    }

    /// Returns whether a writer may proceed now if it has sent `own_bytes` of chunks that are not yet in a table.
    #[must_use]
    pub fn is_open_beside(&self, own_bytes: u64) -> bool {
        self.engine.bound().is_open_beside(own_bytes)
    }

    /// Waits until the gate is open for a writer that has sent `own_bytes` of chunks that are not yet in a table. Calls
    /// `own_bytes` only if the gate would be closed without this allowance.
    ///
    /// # Errors
    /// `Exhausted` after the longest permitted wait; the error lists the tables that use the most memory. The next call
    /// starts a new wait.
    pub fn poll_open(
        &mut self,
        cx: &mut Context<'_>,
        own_bytes: impl Fn() -> u64,
    ) -> Poll<Result<(), EngineError>> {
        loop {
            if self.is_open() || self.is_open_beside(own_bytes()) {
                self.leave();
                return Poll::Ready(Ok(()));
            }
            let memory = self.engine.bound();
            let waiting = self.waiting.get_or_insert_with(|| MemoryWait::new(memory, &self.who));
            let (waited, longest) = (waiting.since.elapsed(), memory.longest_wait);
            if waited >= longest {
                self.leave();
                return Poll::Ready(Err(self.engine.memory_exhausted(waited)));
            }
            memory.set_waker(waiting.id, cx.waker());
            // Chunks that are not yet in a table have not caused a check of the budget.
            if let Some(tier) = self.engine.disk_tier() {
                tier.check_budget();
            }
            // Checks again, because memory that was freed before the waker was registered did not wake this writer.
            if memory.is_open_beside(own_bytes()) {
                continue;
            }
            if waiting.recheck.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let next = memory.recheck_after().min(longest.saturating_sub(waited));
            waiting.recheck.as_mut().reset(Instant::now() + next);
        }
    }

    /// Like [`poll_open`](Self::poll_open). Dropping the future ends the wait.
    ///
    /// # Errors
    /// The errors of [`poll_open`](Self::poll_open).
    pub async fn opened(&mut self, own_bytes: impl Fn() -> u64) -> Result<(), EngineError> {
        let attempt = Attempt(self);
        poll_fn(|cx| attempt.0.poll_open(cx, &own_bytes)).await
    }

    /// Reserves room for at least `bytes` that the writer has sent or is about to send, until the next call to
    /// [`unreserve`](Self::unreserve). In the meantime, other writers' gates count these bytes, so that concurrent
    /// writers together do not exceed the bound. A later call with more bytes enlarges the reservation.
    pub fn reserve(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.reserved.unwrap_or(0));
        self.engine.bound().reserve(more);
        self.reserved = Some(self.reserved.unwrap_or(0) + more);
    }

    /// Returns whether the writer has a reservation.
    #[must_use]
    pub fn has_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// Releases the reservation once the chunks themselves have been counted.
    pub fn unreserve(&mut self) {
        if let Some(bytes) = self.reserved.take() {
            self.engine.bound().unreserve(bytes);
        }
    }

    /// Ends the wait and wakes the next waiter.
    fn leave(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.engine.bound().leave(waiting.id);
            self.engine.bound().freed();
        }
    }
}

impl Drop for MemoryGate {
    fn drop(&mut self) {
        self.unreserve();
        self.leave();
    }
}

/// Ends an abandoned wait.
struct Attempt<'a>(&'a mut MemoryGate);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl MemoryWait {
    fn new(memory: &Memory, who: &Arc<str>) -> Self {
        let since = Instant::now();
        let id = memory.enter(who, since);
        let recheck = Box::pin(tokio::time::sleep(memory.recheck_after().min(memory.longest_wait)));
        Self { id, since, recheck }
    }
}
