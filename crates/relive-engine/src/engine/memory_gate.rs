//! What callers ask about memory, and the gate before which writers wait for it.

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

/// Tables that the error of a full memory names.
const MAX_TABLES_TOLD: usize = 3;

impl Engine {
    /// What all chunks take, and who waits for memory.
    #[must_use]
    pub fn memory(&self) -> MemoryStatus {
        MemoryStatus {
            spill_error: self.disk_tier().and_then(|tier| tier.failure()),
            ..self.bound().status()
        }
    }

    /// A writer's way past the bound on memory; `who` is shown in the list of waiters.
    #[must_use]
    pub fn memory_gate(&self, who: &Arc<str>) -> MemoryGate {
        MemoryGate { engine: self.clone(), who: Arc::clone(who), waiting: None, reserved: None }
    }

    fn memory_exhausted(&self, waited: Duration) -> EngineError {
        EngineError::Memory {
            limit: limit(self.bound().max_bytes, self.bound().gate_bytes),
            resident: bytes(self.ledger().snapshot().resident_bytes()),
            waited,
            cold: self.cold_failure(),
            largest: self.largest_tables(),
        }
    }

    fn cold_failure(&self) -> String {
        let failure = self.disk_tier().and_then(|tier| tier.failure());
        failure.map_or_else(String::new, |failure| format!(", as chunks cannot be moved to disk ({failure})"))
    }

    /// The tables with the most bytes in memory, as text.
    fn largest_tables(&self) -> String {
        let all = self.tables();
        let mut tables: Vec<(u64, &str)> =
            all.iter().map(|table| (table.resident_bytes(), table.name())).collect();
        tables.sort_unstable_by(|a, b| b.cmp(a));
        let mut text = String::new();
        for (resident, name) in tables.iter().take(MAX_TABLES_TOLD) {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(text, "{separator}{} ({})", shortened(name), bytes(*resident));
        }
        text
    }
}

/// Where one writer waits while the engine's chunks take more than [`max_bytes`](crate::EngineBuilder::max_bytes) in
/// memory. Asked before chunks are brought; they may go beyond the bound by what each writer brings at once.
///
/// Chunks that the writer has brought already and that are in no table do not hold it back: nothing but its own items
/// could set them free. It says how many bytes those are.
///
/// A waiter looks again when a change of a table has freed chunks, and every few milliseconds, since readers free
/// chunks too. It waits for [`max_bytes_wait`](crate::EngineBuilder::max_bytes_wait) at most. Without a bound, and once
/// the engine is closed, the gate is always open. Dropping it ends the wait.
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
    waiting: Option<Waiting>,
    reserved: Option<u64>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    since: Instant,
    recheck: Pin<Box<Sleep>>,
}

impl MemoryGate {
    /// Whether the writer may go on now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.engine.bound().is_open()
    }

    /// Whether the writer may go on now, which has brought `own_bytes` of chunks that are in no table.
    #[must_use]
    pub fn is_open_beside(&self, own_bytes: u64) -> bool {
        self.engine.bound().is_open_beside(own_bytes)
    }

    /// Waits until the gate is open for a writer that has brought `own_bytes` of chunks that are in no table; only
    /// asked for if it is closed otherwise.
    ///
    /// # Errors
    /// `Exhausted` after the longest wait, with what takes the memory. The next call waits anew.
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
            let waiting = self.waiting.get_or_insert_with(|| Waiting::new(memory, &self.who));
            let (waited, longest) = (waiting.since.elapsed(), memory.longest_wait);
            if waited >= longest {
                self.leave();
                return Poll::Ready(Err(self.engine.memory_exhausted(waited)));
            }
            memory.set_waker(waiting.id, cx.waker());
            // Chunks that are in no table yet have told nobody that they are one too many.
            if let Some(tier) = self.engine.disk_tier() {
                tier.check_budget();
            }
            // What was freed before the waker was there has woken nobody.
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

    /// As [`poll_open`](Self::poll_open). Dropping the future ends the wait.
    ///
    /// # Errors
    /// As [`poll_open`](Self::poll_open).
    pub async fn opened(&mut self, own_bytes: impl Fn() -> u64) -> Result<(), EngineError> {
        let attempt = Attempt(self);
        poll_fn(|cx| attempt.0.poll_open(cx, &own_bytes)).await
    }

    /// Takes a place for `bytes` that the writer is about to bring, until [`unreserve`](Self::unreserve) or another
    /// call: the gate counts them for others from now on, so that many who begin at once do not bring too much
    /// together.
    pub fn reserve(&mut self, bytes: u64) {
        self.unreserve();
        self.engine.bound().reserve(bytes);
        self.reserved = Some(bytes);
    }

    /// Whether the writer has a place.
    #[must_use]
    pub fn has_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// Gives the place back, when what was brought counts by itself.
    pub fn unreserve(&mut self) {
        if let Some(bytes) = self.reserved.take() {
            self.engine.bound().unreserve(bytes);
        }
    }

    /// Ends the wait, and hands the turn on.
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

/// Ends a wait that is given up.
struct Attempt<'a>(&'a mut MemoryGate);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Waiting {
    fn new(memory: &Memory, who: &Arc<str>) -> Self {
        let since = Instant::now();
        let id = memory.enter(who, since);
        let recheck = Box::pin(tokio::time::sleep(memory.recheck_after().min(memory.longest_wait)));
        Self { id, since, recheck }
    }
}
