//! The thread that keeps memory within its budget.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;

use relive_tensor::{Chunk, ColdStore, Ledger};

use super::sweep::{Step, Sweep};
use crate::handle::TableHandle;
use crate::sync::Mutex;

/// Bytes that are stored at once.
const STEP_BYTES: u64 = 8 << 20;

/// Part of the budget, in sixteenths, from which on chunks are stored: they still come in while that goes on.
const BEGIN_SIXTEENTHS: u64 = 14;

/// Part of the budget at which it ends. What lies between keeps the hand from starting for every insert.
const END_SIXTEENTHS: u64 = 13;

/// Rounds of the hand that may find nothing before it waits: the first only takes the marks of what was read.
const IDLE_ROUNDS: u32 = 2;

/// How long to wait before looking again where nothing could be done: the disk is full, or all that is in memory
/// is in use by writers and readers.
const RETRY: Duration = Duration::from_millis(250);

/// The disk tier of an engine.
pub(crate) struct Cold {
    pub(crate) store: Arc<dyn ColdStore>,
    ledger: Arc<Ledger>,
    begin_bytes: u64,
    end_bytes: u64,
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
            begin_bytes: budget_bytes / 16 * BEGIN_SIXTEENTHS,
            end_bytes: budget_bytes / 16 * END_SIXTEENTHS,
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
    pub(crate) fn start(self: &Arc<Self>, tables: &[TableHandle]) -> std::io::Result<()> {
        let weak = Arc::downgrade(self);
        // The tables hold the tier, so that its thread must not hold them.
        let tables = tables.iter().map(|table| Arc::downgrade(&table.shared)).collect::<Vec<_>>();
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
        if self.resident_bytes() > self.begin_bytes && !self.is_asked.swap(true, Ordering::AcqRel) {
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
    fn work(&self, tables: &[TableHandle], sweep: &mut Sweep) -> Option<Duration> {
        self.is_asked.store(false, Ordering::Release);
        let mut idle = 0;
        while self.resident_bytes() > self.end_bytes && !self.is_ended.load(Ordering::Acquire) {
            let step = sweep.step(tables, STEP_BYTES, is_cold);
            idle = if step.bytes > 0 { 0 } else { idle + u32::from(step.is_round) };
            if idle > IDLE_ROUNDS || !self.stores(&step) {
                return Some(RETRY);
            }
        }
        self.compact(tables)
    }

    /// Stores again what lies where most is waste.
    fn compact(&self, tables: &[TableHandle]) -> Option<Duration> {
        let mut hand = Sweep::default();
        while self.store.is_sparse() && !self.is_ended.load(Ordering::Acquire) {
            let is_misplaced = |chunk: &Chunk| !chunk.is_resident() && self.store.is_sparse_around(chunk);
            let step = hand.step(tables, STEP_BYTES, is_misplaced);
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
        if step.cold.is_empty() {
            return true;
        }
        match self.store.store(&step.cold) {
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
    chunk.is_movable() && chunk.is_resident() && !chunk.take_touched()
}

/// One turn of the thread's work; `None` when it is to end.
fn turn(
    cold: &Weak<Cold>,
    tables: &[Weak<crate::handle::Shared>],
    sweep: &mut Sweep,
) -> Option<Option<Duration>> {
    let cold = cold.upgrade()?;
    let tables: Option<Vec<_>> =
        tables.iter().map(|table| Some(TableHandle { shared: table.upgrade()? })).collect();
    let tables = tables?;
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
        f.debug_struct("Cold").field("begin_bytes", &self.begin_bytes).finish_non_exhaustive()
    }
}
