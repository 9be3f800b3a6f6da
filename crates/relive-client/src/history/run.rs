//! Cells next to each other.

use smallvec::SmallVec;

use crate::writer::ChunkRef;

/// Rows of a chunk that follow each other. It keeps the chunk wanted.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) chunk: ChunkRef,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// The cells of a column, in order; one run for the most common column.
pub(crate) type Runs = SmallVec<[Run; 1]>;

/// Adds cells at the end; rows of a chunk with a gap between them, or in another order, are runs of their own.
pub(crate) fn push_run(runs: &mut Runs, chunk: &ChunkRef, offset: u32, length: u32) {
    match runs.last_mut() {
        Some(last) if last.chunk.is(chunk) && last.offset + last.length == offset => last.length += length,
        Some(_) | None => runs.push(Run { chunk: chunk.clone(), offset, length }),
    }
}
