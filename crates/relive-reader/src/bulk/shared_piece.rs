//! Pieces of shared memory that a server provides. Each piece contains a batch. NumPy arrays use this memory without a
//! copy (`buffer.rs` of relive-python). When the last array of a batch is freed, the piece is returned to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use relive_batch::{BatchMemory, ForeignMemory};
use relive_transport::shared::SharedMemory;

/// The number of times that this process has been forked.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Records that this process is about to fork or has forked. Call it before or after each fork.
///
/// A forked child also has this process's batches, so memory that is shared with a server must no longer be reused for
/// other batches.
pub fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Pieces of shared memory that this process no longer uses.
#[derive(Debug, Default)]
pub(super) struct Freed(Mutex<FreedPieces>);

#[derive(Debug, Default)]
struct FreedPieces {
    /// May be reused.
    free: Vec<u32>,
    /// Pieces that must not be reused.
    kept: Vec<u32>,
    /// Pieces that must not be reused as long as this process has them mapped.
    mapped: Vec<u32>,
}

impl Freed {
    /// Takes the pieces that may be reused, and those that must not be reused.
    pub(super) fn take(&self) -> (Vec<u32>, Vec<u32>) {
        let mut pieces = self.0.lock();
        (std::mem::take(&mut pieces.free), std::mem::take(&mut pieces.kept))
    }

    /// Takes the pieces that no longer need to be mapped.
    pub(super) fn take_mapped(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock().mapped)
    }

    fn push(&self, slot: u32, was_forked: bool) {
        let mut pieces = self.0.lock();
        if was_forked {
            pieces.kept.push(slot);
            pieces.mapped.push(slot);
        } else {
            pieces.free.push(slot);
        }
    }
}

/// A piece that contains a batch. The server may reuse the piece once it has been notified that the piece is free.
struct SharedPiece {
    memory: Arc<SharedMemory>,
    slot: u32,
    freed: Arc<Freed>,
    forks: u64,
}

/// Returns the memory of a batch in a piece.
pub(super) fn batch_in_shared_memory(
    memory: &Arc<SharedMemory>,
    slot: u32,
    freed: &Arc<Freed>,
) -> BatchMemory {
    let forks = FORKS.load(Ordering::Relaxed);
    let (memory, freed) = (Arc::clone(memory), Arc::clone(freed));
    BatchMemory::foreign(Box::new(SharedPiece { memory, slot, freed, forks }))
}

impl ForeignMemory for SharedPiece {
    fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    fn start(&self) -> *mut u8 {
        self.memory.as_ptr()
    }
}

impl Drop for SharedPiece {
    fn drop(&mut self) {
        self.freed.push(self.slot, self.forks != FORKS.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_visible_to_a_forked_child_is_not_reused() {
        let (memory, _descriptor) = SharedMemory::create(100).unwrap();
        let (memory, freed) = (Arc::new(memory), Arc::default());
        let before = batch_in_shared_memory(&memory, 1, &freed);
        note_fork();
        drop(batch_in_shared_memory(&memory, 2, &freed));
        drop(before);
        let (free, kept) = freed.take();
        assert!(kept.contains(&1) && !free.contains(&1), "{kept:?}");
        // Another test may record a fork at any time.
        assert_eq!([free, kept].concat().len(), 2);
    }
}
