//! What samples that are cut alike out of chunks alike have in common: the pieces that their columns consist of.
//!
//! Items lie all over the memory, and so do the chunks that they refer to, and the chunks' bytes. Each of these ways
//! is gone for some items at once, in loops that do little else, so that as many loads as possible are under way.

use std::hint::black_box;
use std::sync::Arc;

use relive_table::Sampled;
use relive_tensor::Chunk;

use super::part::Part;

/// A kind of samples.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The number of the first sample that is of it, and how that is cut.
    first: usize,
    cut_hash: u64,
    pieces: Vec<Piece>,
    /// Where each column ends among the pieces, and the rows of all of its pieces.
    columns: Vec<(usize, u32)>,
}

/// Some rows of one tensor of a chunk, in the order in which they make a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// The chunk, by its place in the sample's trajectory, and the tensor in it.
    chunk: u32,
    index: u32,
    /// The first of the rows, from the first row on that the sample has of the chunk.
    offset: u32,
    pub(crate) rows: u32,
    /// Whether nothing but its own rows needs to be read: it is all of the tensor, or the rows seem to be stored as
    /// they are.
    pub(crate) is_direct: bool,
}

impl Kind {
    /// The kind of sample `number`.
    pub(crate) fn of(sample: &Sampled, number: usize) -> Self {
        let trajectory = &sample.item.trajectory;
        let mut kind = Self {
            first: number,
            cut_hash: trajectory.cut_hash(),
            pieces: Vec::with_capacity(trajectory.num_slices()),
            columns: Vec::with_capacity(trajectory.num_columns()),
        };
        for column in trajectory.columns() {
            for slice in column.slices() {
                let chunk = column.chunk_of(&slice);
                kind.pieces.push(Piece {
                    chunk: slice.chunk,
                    index: slice.index,
                    offset: slice.offset.wrapping_sub(trajectory.first_row(slice.chunk)),
                    rows: slice.length,
                    is_direct: chunk.is_some_and(|chunk| is_direct(chunk, slice.index, slice.length)),
                });
            }
            kind.columns.push((kind.pieces.len(), column.rows()));
        }
        kind
    }

    /// Whether another sample is of this kind.
    pub(crate) fn is_of(&self, samples: &[Sampled], other: &Sampled) -> bool {
        let other = &other.item.trajectory;
        if self.cut_hash != other.cut_hash() {
            return false;
        }
        let Some(first) = samples.get(self.first).map(|sample| &sample.item.trajectory) else { return false };
        if !first.is_cut_like(other) {
            return false;
        }
        let mut chunks = first.chunks().iter().zip(other.chunks());
        chunks.all(|(one, other)| one.is_clearly_like(other))
            || self.pieces.iter().all(|piece| piece.is_like(first.chunks(), other.chunks()))
    }

    /// Rows of a column.
    pub(crate) fn rows(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(1, |(_, rows)| *rows)
    }

    /// What a column consists of.
    pub(crate) fn pieces(&self, column: usize) -> &[Piece] {
        let end_of = |column: usize| self.columns.get(column).map(|(end, _)| *end);
        let start = column.checked_sub(1).and_then(end_of).unwrap_or(0);
        self.pieces.get(start..end_of(column).unwrap_or(0)).unwrap_or_default()
    }
}

/// Whether rows of a column of a chunk can be read without the others, as far as can be told without going to the
/// payload.
fn is_direct(chunk: &Chunk, index: u32, rows: u32) -> bool {
    chunk
        .column(index as usize)
        .is_some_and(|header| header.rows() == rows || (header.seems_plain() && !chunk.is_delta_encoded()))
}

impl Piece {
    /// Whether what it is of in chunks of other samples is of the same type and can be read in the same way.
    fn is_like(&self, ours: &[Arc<Chunk>], theirs: &[Arc<Chunk>]) -> bool {
        let (chunk, index) = (self.chunk as usize, self.index as usize);
        let Some((ours, theirs)) = ours.get(chunk).zip(theirs.get(chunk)) else { return false };
        let headers = ours.column(index).zip(theirs.column(index));
        headers.is_some_and(|(ours, theirs)| ours.has_rows_like(theirs))
            && is_direct(theirs, self.index, self.rows) == self.is_direct
    }

    /// The rows of a sample that it is.
    pub(crate) fn part<'a>(&self, sample: &'a Sampled) -> Option<Part<'a>> {
        let trajectory = &sample.item.trajectory;
        let tensor = trajectory.chunks().get(self.chunk as usize)?.encoded(self.index as usize)?;
        Some(Part {
            tensor,
            first: self.offset.wrapping_add(trajectory.first_row(self.chunk)),
            rows: self.rows,
        })
    }

    /// The same where they lie, if they are stored as they are.
    pub(crate) fn in_place<'a>(&self, sample: &'a Sampled, row_bytes: usize) -> Option<&'a [u8]> {
        let trajectory = &sample.item.trajectory;
        let first = self.offset.wrapping_add(trajectory.first_row(self.chunk));
        let chunk = trajectory.chunks().get(self.chunk as usize)?;
        chunk.rows_in_place(self.index as usize, row_bytes, first, self.rows)
    }

    /// What tells tensors apart: the chunk's address and the tensor's number.
    pub(crate) fn identity(&self, sample: &Sampled) -> (usize, u32) {
        let chunk = sample.item.trajectory.chunks().get(self.chunk as usize);
        (chunk.map_or(0, |chunk| Arc::as_ptr(chunk).addr()), self.index)
    }
}

/// Samples that are looked at side by side. Each pause between two runs costs a wait for memory; what is looked at of
/// so many still fits the processor's own second cache.
pub(crate) const STAGE: usize = 256;

/// Chunks of each item that are fetched ahead: with more, those of other items would leave the cache before they are
/// read.
const TOUCHED_CHUNKS: usize = 4;

/// Brings the chunks of samples near: first where it says which they are.
pub(crate) fn touch(samples: &[Sampled]) {
    for sample in samples {
        black_box(sample.item.trajectory.chunks().first().map(Arc::as_ptr));
    }
    for chunk in samples.iter().flat_map(|sample| sample.item.trajectory.chunks().iter().take(TOUCHED_CHUNKS))
    {
        // The first and the last of what is looked at, which takes two lines of memory.
        black_box((chunk.num_columns(), chunk.is_delta_encoded()));
    }
}
