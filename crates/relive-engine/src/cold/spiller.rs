//! The thread that keeps memory within its budget.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;

use relive_tensor::{Chunk, ColdStore, Ledger};

use super::marks::Marks;
use super::returned::Returned;
use super::sweep::{Step, Sweep};
use crate::catalogue::Catalogue;
use crate::sync::Mutex;

/// Most bytes that are stored at once, which is the size of a file.
const MAX_STEP_BYTES: u64 = 32 << 20;

/// Least bytes that are stored at once.
const MIN_STEP_BYTES: u64 = 1 << 20;

/// Places of items that the hand passes in a step where most that is in memory has come back from disk, and is found
/// without it.
const FEW_PLACES: usize = 2_048;

/// Rounds of the hand that may find nothing before it waits: the first only takes the marks of what was read.
const IDLE_ROUNDS: u32 = 2;

/// How long to wait before looking again where nothing could be done: the disk is full, or all that is in memory
/// is in use by writers and readers.
const RETRY: Duration = Duration::from_millis(250);

/// The disk tier of an engine.
pub(crate) struct Cold {
    pub(crate) store: Arc<dyn ColdStore>,
    ledger: Arc<Ledger>,
    pub(super) returned: Returned,
    marks: Marks,
    step_bytes: u64,
    /// Why the last try to store failed.
    failure: Mutex<Option<String>>,
    is_asked: AtomicBool,
    is_ended: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Cold {
    pub(crate) fn new(store: Arc<dyn ColdStore>, budget_bytes: u64, ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self {
            store,
            ledger,
            returned: Returned::new(),
            marks: Marks::of(budget_bytes),
            step_bytes: (budget_bytes / 64).clamp(MIN_STEP_BYTES, MAX_STEP_BYTES),
            failure: Mutex::new(None),
            is_asked: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    /// Begins to keep the memory of `tables` within the budget.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(self: &Arc<Self>, tables: &Arc<Catalogue>) -> std::io::Result<()> {
        let weak = Arc::downgrade(self);
        // The tables hold the tier, so that its thread must not hold them.
        let tables = Arc::downgrade(tables);
        let run = move || {
            let mut sweep = Sweep::default();
            while let Some(wait) = turn(&weak, &tables, &mut sweep) {
                wait.map_or_else(std::thread::park, std::thread::park_timeout);
            }
        };
        let thread = std::thread::Builder::new().name("relive-spill".to_owned()).spawn(run)?;
        // Nobody waits for its end: it holds nothing that outlives the tables.
        let _ = self.thread.set(thread.thread().clone());
        self.look();
        Ok(())
    }

    /// Has the thread work if memory is over the budget. Called after every change of a table.
    pub(crate) fn look(&self) {
        if self.resident_bytes() > self.marks.begin_bytes && !self.is_asked.swap(true, Ordering::AcqRel) {
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Why chunks stay in memory that should not.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    fn resident_bytes(&self) -> u64 {
        self.ledger.snapshot().resident_bytes()
    }

    /// Stores until memory is within the budget. Tells how long to wait; `None`: until asked.
    fn work(&self, tables: &Catalogue, sweep: &mut Sweep) -> Option<Duration> {
        self.is_asked.store(false, Ordering::Release);
        let mut idle = 0;
        while self.resident_bytes() > self.marks.end_bytes && !self.is_ended.load(Ordering::Acquire) {
            let step = self.step(tables, sweep, idle > 0);
            idle = if step.bytes > 0 { 0 } else { idle + u32::from(step.is_round) };
            if idle > IDLE_ROUNDS || !self.stores(&step) {
                return Some(RETRY);
            }
        }
        self.compact(tables)
    }

    /// What is to leave next: of what was never away and of what has come back as much as there is of each, so that neither
    /// keeps its place at the cost of the other.
    fn step(&self, tables: &Catalogue, sweep: &mut Sweep, is_idle: bool) -> Step {
        let (returned, resident) = (self.returned.size_bytes(), self.resident_bytes());
        let share = part(self.step_bytes, returned, resident);
        let places = if returned > resident / 2 && !is_idle { FEW_PLACES } else { usize::MAX };
        // What has come back is found without the hand, unless somebody else has brought it.
        let is_cold = |chunk: &Chunk| (is_idle || !chunk.is_stored()) && is_cold(chunk);
        let mut step = sweep.step(&tables.cores(), self.step_bytes - share, places, is_cold);
        step.extend(self.returned.take(self.step_bytes.saturating_sub(step.bytes)));
        step
    }

    /// Has chunks leave that need not be written, so that `bytes` can come back. Whoever brings much himself makes room
    /// himself: the thread may be busy writing, and memory that was just freed is the first to be taken again.
    pub(super) fn make_room(&self, bytes: u64) {
        let resident = self.resident_bytes() + bytes;
        let beyond = resident.saturating_sub(self.marks.begin_bytes);
        let share = match resident > self.marks.gate_bytes {
            true => beyond,
            // The rest is left to the thread, which also takes what was never away.
            false => part(beyond, self.returned.size_bytes(), resident),
        };
        if share > 0 {
            // A failure is noted, and leaves them where they are.
            self.store_all(&self.returned.take(share));
        }
    }

    /// Stores again what lies where most is waste.
    fn compact(&self, tables: &Catalogue) -> Option<Duration> {
        let mut hand = Sweep::default();
        while self.store.is_sparse() && !self.is_ended.load(Ordering::Acquire) {
            let is_misplaced = |chunk: &Chunk| chunk.is_stored() && self.store.is_sparse_around(chunk);
            let step = hand.step(&tables.cores(), self.step_bytes, usize::MAX, is_misplaced);
            if !self.stores(&step) {
                return Some(RETRY);
            }
            if step.is_round {
                break;
            }
        }
        None
    }

    fn stores(&self, step: &Step) -> bool {
        self.store_all(&step.cold)
    }

    fn store_all(&self, chunks: &[Arc<Chunk>]) -> bool {
        if chunks.is_empty() {
            return true;
        }
        let stored = self.store.store(chunks);
        // Somebody had them at hand at the last moment.
        let stay = |chunk: &&Arc<Chunk>| chunk.is_resident() && chunk.is_stored();
        let stayed: Vec<Arc<Chunk>> = chunks.iter().filter(stay).cloned().collect();
        self.returned.push(&stayed);
        match stored {
            Ok(()) => {
                *self.failure.lock() = None;
                true
            }
            Err(error) => {
                // Each further try would say the same.
                if self.failure.lock().replace(error.to_string()).is_none() {
                    tracing::error!(%error, "chunks cannot be moved to disk and stay in memory");
                }
                false
            }
        }
    }
}

/// A chunk that can go and was not read lately.
fn is_cold(chunk: &Chunk) -> bool {
    chunk.is_movable() && chunk.is_resident() && !chunk.take_touched() && !chunk.is_at_hand()
}

/// The part of `whole` that `of` is of `all`.
fn part(whole: u64, of: u64, all: u64) -> u64 {
    let part = u128::from(whole) * u128::from(of) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(whole).min(whole)
}

/// One turn of the thread's work; `None` when it is to end.
fn turn(cold: &Weak<Cold>, tables: &Weak<Catalogue>, sweep: &mut Sweep) -> Option<Option<Duration>> {
    let cold = cold.upgrade()?;
    let tables = tables.upgrade()?;
    if cold.is_ended.load(Ordering::Acquire) {
        return None;
    }
    Some(cold.work(&tables, sweep))
}

impl Drop for Cold {
    /// The thread looks once more and finds that there is nothing left.
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Release);
        self.unpark();
    }
}

impl std::fmt::Debug for Cold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cold").field("marks", &self.marks).finish_non_exhaustive()
    }
}
