//! The bound on what all chunks of an engine take in memory: writers wait before it, and in the end they are told.
//!
//! What counts are the chunks themselves, wherever they lie: in tables, with streams that bring them, with readers that have
//! not let go of them. So writers are asked to wait before they bring chunks ([`MemoryGate`]), not when they insert items.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use relive_tensor::{Ledger, LedgerSnapshot};
use tokio::time::{Instant, Sleep};

use crate::cold::{Cold, Marks};
use crate::limits::{MAX_LISTED_WAITERS, MEMORY_RECHECK, MEMORY_RECHECK_PER_WAITER};
use crate::sync::Mutex;
use crate::{Engine, EngineError};

/// Tables that the error of a full memory names.
const MAX_TABLES_TOLD: usize = 3;

/// The account of all chunks, its bound, and who waits for it.
#[derive(Debug)]
pub(crate) struct Memory {
    ledger: Arc<Ledger>,
    max_bytes: Option<u64>,
    /// Where writers wait: at the bound, or before it where a disk tier needs the rest.
    gate_bytes: Option<u64>,
    /// Bytes that writers are about to bring.
    reserved_bytes: AtomicU64,
    longest_wait: Duration,
    /// Number of waiters, to be looked at without the lock.
    waiting: AtomicUsize,
    closed: AtomicBool,
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    next_id: u64,
    /// In the order of their coming.
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    who: Arc<str>,
    since: Instant,
    /// Taken when it is woken, so that the next one is woken after it.
    waker: Option<Waker>,
}

/// What an engine's chunks take, and who waits for less.
#[derive(Debug, Clone)]
pub struct MemoryStatus {
    /// All live chunks, each counted once.
    pub chunks: LedgerSnapshot,
    /// The bound on the bytes that are in memory.
    pub max_bytes: Option<u64>,
    /// The bytes in memory from which on writers wait: the bound, or a sixteenth less where there is a disk tier.
    pub gate_bytes: Option<u64>,
    /// Bytes that writers are about to bring, which have a place within the bound already.
    pub reserved_bytes: u64,
    /// Writers that wait for memory, the longest waiting first.
    pub waiters: Vec<MemoryWaiter>,
    /// Waiters beyond the ones listed.
    pub waiters_not_listed: usize,
    /// Why chunks could not be moved to disk when that was last tried; they stay in memory.
    pub spill_error: Option<String>,
}

/// A writer that waits for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWaiter {
    /// Who waits, as given with the gate.
    pub who: Arc<str>,
    /// For how long.
    pub waiting: Duration,
}

impl MemoryStatus {
    /// What the waiters wait for, for people.
    #[must_use]
    pub fn reason(&self) -> String {
        let limit = limit(self.max_bytes, self.gate_bytes);
        let resident = bytes(self.chunks.resident_bytes());
        let coming = match self.reserved_bytes {
            0 => String::new(),
            reserved => format!(" and {} are on their way", bytes(reserved)),
        };
        let stuck = match &self.spill_error {
            Some(error) => format!("; chunks cannot be moved to disk: {error}"),
            None => String::new(),
        };
        format!("server memory: chunks take {resident}{coming}, max_bytes is {limit}{stuck}")
    }
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

    /// Wakes the first waiter that is not awake yet, if there is room. Called where chunks may have been freed; no table
    /// may be locked.
    pub(crate) fn freed(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 || !self.is_open() {
            return;
        }
        let waker = self.waiters.lock().queue.iter_mut().find_map(|waiter| waiter.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Lets everybody through: closed tables refuse by themselves.
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

    fn is_open(&self) -> bool {
        self.is_open_beside(0)
    }

    fn is_open_beside(&self, own_bytes: u64) -> bool {
        let taken = || self.ledger.snapshot().resident_bytes() + self.reserved_bytes.load(Ordering::Relaxed);
        let within = |max| taken().saturating_sub(own_bytes) <= max;
        self.gate_bytes.is_none_or(within) || self.closed.load(Ordering::Relaxed)
    }

    fn enter(&self, who: &Arc<str>, since: Instant) -> u64 {
        let mut waiters = self.waiters.lock();
        let id = waiters.next_id;
        waiters.next_id += 1;
        waiters.queue.push_back(Waiter { id, who: Arc::clone(who), since, waker: None });
        self.waiting.store(waiters.queue.len(), Ordering::Relaxed);
        id
    }

    fn set_waker(&self, id: u64, waker: &Waker) {
        let mut waiters = self.waiters.lock();
        if let Ok(at) = waiters.queue.binary_search_by_key(&id, |waiter| waiter.id)
            && let Some(waiter) = waiters.queue.get_mut(at)
        {
            waiter.waker = Some(waker.clone());
        }
    }

    fn leave(&self, id: u64) {
        let mut waiters = self.waiters.lock();
        if let Ok(at) = waiters.queue.binary_search_by_key(&id, |waiter| waiter.id) {
            waiters.queue.remove(at);
        }
        self.waiting.store(waiters.queue.len(), Ordering::Relaxed);
    }

    /// Time between two looks of a waiter: the more there are, the longer, so that all of them together cost little.
    fn recheck_after(&self) -> Duration {
        let waiting = u32::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        MEMORY_RECHECK + MEMORY_RECHECK_PER_WAITER.saturating_mul(waiting)
    }
}

impl Engine {
    /// What all chunks take, and who waits for memory.
    #[must_use]
    pub fn memory(&self) -> MemoryStatus {
        MemoryStatus { spill_error: self.cold().and_then(Cold::failure), ..self.bound().status() }
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

    fn cold(&self) -> Option<&Cold> {
        self.cold_tier().map(Arc::as_ref)
    }

    fn cold_failure(&self) -> String {
        let failure = self.cold().and_then(Cold::failure);
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
            let _ = write!(text, "{separator}{} ({})", crate::engine::shortened(name), bytes(*resident));
        }
        text
    }
}

/// Where one writer waits while the engine's chunks take more than [`max_bytes`](crate::EngineBuilder::max_bytes) in
/// memory. Asked before chunks are brought; they may go beyond the bound by what each writer brings at once.
///
/// Chunks that the writer has brought already and that are in no table do not hold it back: nothing but its own items could
/// set them free. It says how many bytes those are.
///
/// A waiter looks again when a change of a table has freed chunks, and every few milliseconds, since readers free chunks
/// too. It waits for [`max_bytes_wait`](crate::EngineBuilder::max_bytes_wait) at most. Without a bound, and once the engine
/// is closed, the gate is always open. Dropping it ends the wait.
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

    /// Waits until the gate is open for a writer that has brought `own_bytes` of chunks that are in no table; only asked
    /// for if it is closed otherwise.
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
            if let Some(cold) = self.engine.cold() {
                cold.look();
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

    /// Takes a place for `bytes` that the writer is about to bring, until [`unreserve`](Self::unreserve) or another call: the
    /// gate counts them for others from now on, so that many who begin at once do not bring too much together.
    pub fn reserve(&mut self, bytes: u64) {
        self.unreserve();
        self.engine.bound().reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
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
            self.engine.bound().reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.engine.bound().freed();
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

/// A bound for people.
fn limit(max_bytes: Option<u64>, gate_bytes: Option<u64>) -> String {
    match (max_bytes, gate_bytes) {
        (Some(max), Some(gate)) if gate < max => {
            format!("{}, of which the disk tier leaves {} to writers", bytes(max), bytes(gate))
        }
        (Some(max), _) => bytes(max),
        (None, _) => "not bounded".to_owned(),
    }
}

/// A number of bytes for people: `7.9 GB`.
fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (number as f64, "B");
    for larger in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    if unit == "B" { format!("{number} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_of_ten() {
        let shown = [0, 999, 1_000, 8_000_000_000, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "8.0 GB", "18.4 EB"]);
    }
}
