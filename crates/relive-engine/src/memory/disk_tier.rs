//! The disk tier as used by tables and readers: chunks on disk, chunks that were read back, and the thread that frees
//! memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use relive_tensor::{Chunk, ColdStore, Ledger};

use super::marks::Marks;
use super::returned::Returned;
use crate::sync::Mutex;

/// The disk tier of an engine.
pub(crate) struct DiskTier {
    pub(crate) store: Arc<dyn ColdStore>,
    pub(crate) returned: Returned,
    pub(crate) marks: Marks,
    ledger: Arc<Ledger>,
    /// The reason why the last attempt to store chunks failed.
    failure: Mutex<Option<String>>,
    is_asked: AtomicBool,
    /// The thread that moves chunks to disk.
    thread: OnceLock<Thread>,
}

impl DiskTier {
    pub(crate) fn new(store: Arc<dyn ColdStore>, budget_bytes: u64, ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self {
            store,
            ledger,
            returned: Returned::new(),
            marks: Marks::of(budget_bytes),
            failure: Mutex::new(None),
            is_asked: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    /// Sets the thread that moves chunks to disk.
    pub(crate) fn served_by(&self, thread: Thread) {
        let _ = self.thread.set(thread);
        self.check_budget();
    }

    /// Wakes the thread if memory is over the budget. Called after every change to a table.
    pub(crate) fn check_budget(&self) {
        if self.resident_bytes() > self.marks.begin_bytes && !self.is_asked.swap(true, Ordering::AcqRel) {
            self.unpark();
        }
    }

    /// Records that the thread has begun to work, so that later requests wake it again.
    pub(crate) fn begin_work(&self) {
        self.is_asked.store(false, Ordering::Release);
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Returns the reason why chunks that should move to disk stay in memory.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.ledger.snapshot().resident_bytes()
    }

    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.ledger.snapshot().spilled_bytes
    }

    /// Drops chunks that are already on disk from memory, so that `bytes` bytes can be read back. A large read makes
    /// room for itself, because the thread may be busy writing, and because the allocator reuses recently freed memory
    /// first.
    pub(super) fn make_room(&self, bytes: u64) {
        let resident = self.resident_bytes() + bytes;
        let beyond = resident.saturating_sub(self.marks.begin_bytes);
        let share = match resident > self.marks.gate_bytes {
            true => beyond,
            // The thread frees the rest; it also moves chunks that were never on disk.
            false => part(beyond, self.returned.size_bytes(), resident),
        };
        if share > 0 {
            // A failure is recorded, and the chunks stay in memory.
            self.store_all(&self.returned.take(share));
        }
    }

    /// Moves chunks to disk. Returns false and records the failure if the store fails.
    pub(crate) fn store_all(&self, chunks: &[Arc<Chunk>]) -> bool {
        if chunks.is_empty() {
            return true;
        }
        let stored = self.store.store(chunks);
        // Chunks may stay in memory because a reader has just begun to use them.
        let stay = |chunk: &&Arc<Chunk>| chunk.is_resident() && chunk.is_stored();
        let stayed: Vec<Arc<Chunk>> = chunks.iter().filter(stay).cloned().collect();
        self.returned.push(&stayed);
        match stored {
            Ok(()) => {
                *self.failure.lock() = None;
                true
            }
            Err(error) => {
                // The comparison prevents repeated attempts from logging the same message each time.
                if self.failure.lock().replace(error.to_string()).is_none() {
                    tracing::error!(%error, "chunks cannot be moved to disk and stay in memory");
                }
                false
            }
        }
    }
}

/// Returns `whole * of / all`, limited to `whole`.
pub(crate) fn part(whole: u64, of: u64, all: u64) -> u64 {
    let part = u128::from(whole) * u128::from(of) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(whole).min(whole)
}

impl Drop for DiskTier {
    /// Wakes the thread, which then ends because the tables are gone.
    fn drop(&mut self) {
        self.unpark();
    }
}

impl std::fmt::Debug for DiskTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskTier").field("marks", &self.marks).finish_non_exhaustive()
    }
}
