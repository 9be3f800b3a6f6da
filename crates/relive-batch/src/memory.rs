//! The memory of a batch's data.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use parking_lot::Mutex;

use super::BatchError;

/// A cache line: the alignment of data.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; ALIGNMENT]);

/// The alignment of each column, in bytes.
pub const ALIGNMENT: usize = 64;

/// The maximum number of idle blocks that are kept for reuse, which is more than a pipeline uses at once.
const MAX_IDLE_BLOCKS: usize = 32;

/// The maximum number of idle bytes that are kept for reuse.
const MAX_IDLE_BYTES: usize = 256 << 20;

/// The data of one batch. Dropping the last reference returns its memory for reuse.
pub struct BatchMemory(Memory);

enum Memory {
    /// Memory of this process only. Without a pool, it is freed on drop.
    Own {
        lines: Vec<CacheLine>,
        len: usize,
        start: usize,
        pool: Option<Arc<Pool>>,
    },
    Foreign(Box<dyn ForeignMemory>),
}

/// Memory that another program has filled, such as a server on this machine. Dropping this value returns the memory to
/// that program.
///
/// Until the value is dropped, [`bytes`](Self::bytes) must always return the same range, and [`start`](Self::start) a
/// pointer to its first byte. The range must be valid for reads and writes through this pointer, and neither the
/// implementation nor the program that filled the memory may write to it.
pub trait ForeignMemory: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// Returns a pointer to the first byte, for writing. While it is in use, no other code may write or read the bytes.
    fn start(&self) -> *mut u8;
}

/// A pool of memory from dropped batches. New memory costs a page fault per 4 KiB, which takes as long as filling it.
#[derive(Default)]
pub struct Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    blocks: Vec<Vec<CacheLine>>,
    bytes: usize,
}

impl Pool {
    /// Allocates memory of `len` bytes with unspecified contents. When dropped, it returns to this pool.
    ///
    /// # Errors
    /// [`BatchError::OutOfMemory`].
    pub fn take(self: &Arc<Self>, len: usize) -> Result<BatchMemory, BatchError> {
        let wanted = len.div_ceil(ALIGNMENT).max(1);
        let mut idle = self.0.lock();
        let fits = |lines: &Vec<CacheLine>| lines.len() >= wanted && lines.len() / 2 <= wanted;
        let found = idle.blocks.iter().rposition(fits).map(|at| idle.blocks.swap_remove(at));
        idle.bytes -= found.as_ref().map_or(0, |lines| lines.len() * ALIGNMENT);
        drop(idle);
        BatchMemory::own(found, len, Some(Arc::clone(self)))
    }

    fn give_back(&self, lines: Vec<CacheLine>) {
        let bytes = lines.len() * ALIGNMENT;
        let mut idle = self.0.lock();
        if idle.blocks.len() < MAX_IDLE_BLOCKS && idle.bytes + bytes <= MAX_IDLE_BYTES {
            idle.bytes += bytes;
            idle.blocks.push(lines);
        }
    }
}

impl BatchMemory {
    /// Creates `len` bytes of zeroed memory, outside any pool.
    ///
    /// # Errors
    /// [`BatchError::OutOfMemory`].
    pub fn zeroed(len: usize) -> Result<BatchMemory, BatchError> {
        BatchMemory::own(None, len, None)
    }

    fn own(
        lines: Option<Vec<CacheLine>>,
        len: usize,
        pool: Option<Arc<Pool>>,
    ) -> Result<BatchMemory, BatchError> {
        let fresh = || bytemuck::allocation::try_zeroed_vec(len.div_ceil(ALIGNMENT).max(1));
        let mut lines = match lines {
            Some(lines) => lines,
            None => fresh().map_err(|()| BatchError::OutOfMemory { bytes: len })?,
        };
        let start = lines.as_mut_ptr().expose_provenance();
        Ok(BatchMemory(Memory::Own { lines, len, start, pool }))
    }

    /// Returns memory that another program has filled.
    #[must_use]
    pub fn foreign(memory: Box<dyn ForeignMemory>) -> BatchMemory {
        BatchMemory(Memory::Foreign(memory))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Memory::Own { lines, len, .. } => {
                let bytes: &[u8] = bytemuck::cast_slice(lines);
                bytes.get(..*len).unwrap_or_default()
            }
            Memory::Foreign(memory) => memory.bytes(),
        }
    }

    /// Returns the bytes, for filling. The slice is empty for memory that another program has filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own { lines, len, .. } => {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(lines);
                bytes.get_mut(..*len).unwrap_or_default()
            }
            Memory::Foreign(_) => &mut [],
        }
    }

    /// Returns the whole memory as one column.
    #[must_use]
    pub fn into_column(self) -> ColumnMemory {
        let range = 0..self.bytes().len();
        ColumnMemory { memory: Arc::new(self), range }
    }
}

impl Drop for BatchMemory {
    fn drop(&mut self) {
        if let Memory::Own { lines, pool: Some(pool), .. } = &mut self.0 {
            pool.give_back(std::mem::take(lines));
        }
    }
}

/// The elements of one column of a batch, in place: `[samples, rows, ..cell]`, little-endian, row-major, aligned to
/// [`ALIGNMENT`] bytes. The columns of a batch share one memory, which lives as long as any of them.
#[derive(Clone)]
pub struct ColumnMemory {
    memory: Arc<BatchMemory>,
    range: Range<usize>,
}

impl ColumnMemory {
    pub(crate) fn new(memory: &Arc<BatchMemory>, range: Range<usize>) -> ColumnMemory {
        ColumnMemory { memory: Arc::clone(memory), range }
    }

    /// Returns a part of the column, starting at `start`. A part that would extend beyond the column is shorter.
    #[must_use]
    pub fn part(&self, start: usize, len: usize) -> ColumnMemory {
        let start = self.range.start.saturating_add(start).min(self.range.end);
        let end = start.saturating_add(len).min(self.range.end);
        ColumnMemory { memory: Arc::clone(&self.memory), range: start..end }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes().get(self.range.clone()).unwrap_or_default()
    }

    /// Returns the start of the bytes, for callers that expose them as a writable array: no other code writes them, and
    /// a server does not read them again. The pointer is valid as long as this value or a clone of it exists; while the
    /// pointer is in use, no other reference to the bytes may be in use.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        let start = match &self.memory.0 {
            Memory::Own { start, .. } => std::ptr::with_exposed_provenance_mut(*start),
            Memory::Foreign(memory) => memory.start(),
        };
        start.wrapping_add(self.range.start)
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether the column is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns whether the memory was filled by another program, such as a server that shares it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.memory.0, Memory::Foreign(_))
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
    fn parts_end_with_the_column() {
        let mut memory = BatchMemory::zeroed(8).unwrap();
        memory.bytes_mut().copy_from_slice(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let column = ColumnMemory::new(&Arc::new(memory), 2..6);
        assert_eq!(column.part(1, 2).bytes(), [3, 4]);
        assert_eq!(column.part(1, usize::MAX).bytes(), [3, 4, 5]);
        assert_eq!(column.part(usize::MAX, 2).bytes(), []);
        // Wraps around to the column before.
        assert_eq!(column.part(usize::MAX - 1, 2).bytes(), []);
    }
}
