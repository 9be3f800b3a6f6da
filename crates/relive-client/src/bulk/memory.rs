//! Where the data of a batch lies.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};
use parking_lot::Mutex;
use relive_transport::shared::SharedMemory;

/// A line of memory: what data is aligned to.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; LINE_BYTES]);

const LINE_BYTES: usize = 64;

/// Blocks that wait to be used again.
const MAX_IDLE_BLOCKS: usize = 8;

/// Bytes that wait to be used again.
const MAX_IDLE_BYTES: usize = 256 << 20;

/// The data of one batch. When the last reference is gone, its memory is used again.
pub(crate) enum BatchMemory {
    /// Of this process alone.
    Own { lines: Vec<Line>, len: usize, start: usize, pool: Arc<Pool> },
    /// Shared with the server, which may use the piece again once it is told.
    Shared { memory: Arc<SharedMemory>, slot: u32, freed: Arc<Freed>, forks: u64 },
}

/// How often this process was forked.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// To be called before or after this process forks, by who lets that happen: the child has the batches of this process, too, so that
/// memory which is shared with a server is not used again for others.
pub fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Pieces of shared memory that nobody here looks at any more.
#[derive(Debug, Default)]
pub(crate) struct Freed(Mutex<FreedPieces>);

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

/// Memory of batches that are gone. Fresh memory costs a page fault per 4 KiB, as much as filling it.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<Line>>>);

impl Pool {
    /// Memory of `len` bytes of unspecified content.
    pub(crate) fn take(pool: &Arc<Pool>, len: usize) -> BatchMemory {
        let wanted = len.div_ceil(LINE_BYTES).max(1);
        let mut idle = pool.0.lock();
        let found = idle.iter().rposition(|lines| lines.len() >= wanted && lines.len() / 2 <= wanted);
        let lines = found.map(|at| idle.swap_remove(at));
        drop(idle);
        let mut lines = lines.unwrap_or_else(|| vec![Line::zeroed(); wanted]);
        let start = lines.as_mut_ptr().expose_provenance();
        BatchMemory::Own { lines, len, start, pool: Arc::clone(pool) }
    }

    fn give_back(&self, lines: Vec<Line>) {
        let mut idle = self.0.lock();
        let bytes: usize = idle.iter().map(|lines| lines.len() * LINE_BYTES).sum();
        if idle.len() < MAX_IDLE_BLOCKS && bytes + lines.len() * LINE_BYTES <= MAX_IDLE_BYTES {
            idle.push(lines);
        }
    }
}

impl BatchMemory {
    /// A batch in a piece of shared memory.
    pub(super) fn shared(memory: &Arc<SharedMemory>, slot: u32, freed: &Arc<Freed>) -> BatchMemory {
        let forks = FORKS.load(Ordering::Relaxed);
        BatchMemory::Shared { memory: Arc::clone(memory), slot, freed: Arc::clone(freed), forks }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            BatchMemory::Own { lines, len, .. } => {
                let bytes: &[u8] = bytemuck::cast_slice(lines);
                bytes.get(..*len).unwrap_or_default()
            }
            BatchMemory::Shared { memory, .. } => memory.bytes(),
        }
    }

    /// The bytes, to be filled; none of memory that the server fills.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            BatchMemory::Own { lines, len, .. } => {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(lines);
                bytes.get_mut(..*len).unwrap_or_default()
            }
            BatchMemory::Shared { .. } => &mut [],
        }
    }
}

impl Drop for BatchMemory {
    fn drop(&mut self) {
        match self {
            BatchMemory::Own { lines, pool, .. } => pool.give_back(std::mem::take(lines)),
            BatchMemory::Shared { slot, freed, forks, .. } => {
                freed.push(*slot, *forks != FORKS.load(Ordering::Relaxed));
            }
        }
    }
}

/// The elements of one column of a batch, where they came to lie: `[samples, rows, ..cell]`, little endian, row-major, aligned
/// to 64 bytes. Columns of a batch share one memory, which lives as long as any of them.
#[derive(Clone)]
pub struct ColumnMemory {
    memory: Arc<BatchMemory>,
    range: Range<usize>,
}

impl ColumnMemory {
    pub(super) fn new(memory: &Arc<BatchMemory>, range: Range<usize>) -> ColumnMemory {
        ColumnMemory { memory: Arc::clone(memory), range }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes().get(self.range.clone()).unwrap_or_default()
    }

    /// Where the bytes begin, for who makes them an array that may be written to: nobody else does, and the server does not look
    /// at them again. Valid as long as this or a clone of it lives; no other reference to the bytes may be in use meanwhile.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        let start = match &*self.memory {
            BatchMemory::Own { start, .. } => std::ptr::with_exposed_provenance_mut(*start),
            BatchMemory::Shared { memory, .. } => memory.as_ptr(),
        };
        start.wrapping_add(self.range.start)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Whether the memory is shared with the server, and not of this process alone.
    pub fn is_shared(&self) -> bool {
        matches!(*self.memory, BatchMemory::Shared { .. })
    }
}

impl std::fmt::Debug for ColumnMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnMemory").field("len", &self.range.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_may_look_at_is_not_used_again() {
        let (memory, _descriptor) = SharedMemory::create(100).unwrap();
        let (memory, freed) = (Arc::new(memory), Arc::default());
        let before = BatchMemory::shared(&memory, 1, &freed);
        note_fork();
        drop(BatchMemory::shared(&memory, 2, &freed));
        drop(before);
        let (free, kept) = freed.take();
        assert!(kept.contains(&1) && !free.contains(&1), "{kept:?}");
        // Another test may note a fork at any time.
        assert_eq!([free, kept].concat().len(), 2);
    }
}
