//! Pieces of memory that a server shares, and lends with a batch in each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use relive_batch::{BatchMemory, ForeignMemory};
use relive_transport::shared::SharedMemory;

/// How often this process was forked.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// To be called before or after this process forks, by who lets that happen: the child has the batches of this
/// process, too, so that memory which is shared with a server is not used again for others.
pub fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Pieces of shared memory that nobody here looks at any more.
#[derive(Debug, Default)]
pub(super) struct Freed(Mutex<FreedPieces>);

#[derive(Debug, Default)]
struct FreedPieces {
    /// To be used again.
    free: Vec<u32>,
    /// Not to be used again.
    kept: Vec<u32>,
    /// The same, as long as this process has them mapped.
    mapped: Vec<u32>,
}

impl Freed {
    /// Pieces to be given back, and pieces to be given up.
    pub(super) fn take(&self) -> (Vec<u32>, Vec<u32>) {
        let mut pieces = self.0.lock();
        (std::mem::take(&mut pieces.free), std::mem::take(&mut pieces.kept))
    }

    /// Pieces that need not be mapped any more.
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

/// A piece with a batch in it, which the server may use again once it is told.
struct Lent {
    memory: Arc<SharedMemory>,
    slot: u32,
    freed: Arc<Freed>,
    forks: u64,
}

/// The memory of a batch in a piece.
pub(super) fn lent(memory: &Arc<SharedMemory>, slot: u32, freed: &Arc<Freed>) -> BatchMemory {
    let forks = FORKS.load(Ordering::Relaxed);
    let (memory, freed) = (Arc::clone(memory), Arc::clone(freed));
    BatchMemory::foreign(Box::new(Lent { memory, slot, freed, forks }))
}

impl ForeignMemory for Lent {
    fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    fn start(&self) -> *mut u8 {
        self.memory.as_ptr()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.freed.push(self.slot, self.forks != FORKS.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_may_look_at_is_not_used_again() {
        let (memory, _descriptor) = SharedMemory::create(100).unwrap();
        let (memory, freed) = (Arc::new(memory), Arc::default());
        let before = lent(&memory, 1, &freed);
        note_fork();
        drop(lent(&memory, 2, &freed));
        drop(before);
        let (free, kept) = freed.take();
        assert!(kept.contains(&1) && !free.contains(&1), "{kept:?}");
        // Another test may note a fork at any time.
        assert_eq!([free, kept].concat().len(), 2);
    }
}
