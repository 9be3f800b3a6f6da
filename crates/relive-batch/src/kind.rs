//! Kinds of samples. Samples that are cut from chunks in the same way are of the same kind, and share the pieces of
//! their columns.
//!
//! Items, the chunks to which they refer, and the chunks' bytes are scattered in memory. References between them are
//! followed for several items at once, in tight loops, so that as many loads as possible are in flight.

use std::sync::Arc;

use relive_prefetch::prefetch_value;
use relive_table::Sampled;
use relive_tensor::Chunk;

use super::part::Part;

/// A kind of samples.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The number of the kind's first sample, and the slicing of that sample.
    first: usize,
    cut_hash: u64,
    pieces: Vec<Piece>,
    /// For each column, the index after its last piece in `pieces`, and the total number of rows of its pieces.
    columns: Vec<(usize, u32)>,
}

/// Some rows of one tensor of a chunk. A column consists of its pieces in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// The position of the chunk in the sample's trajectory, and the position of the tensor in the chunk.
    chunk: u32,
    index: u32,
    /// The first row, relative to the sample's first row of the chunk.
    offset: u32,
    pub(crate) rows: u32,
    /// Whether only the piece's own rows need to be read: the piece is the whole tensor, or its rows seem to be stored
    /// verbatim.
    pub(crate) is_direct: bool,
}

impl Kind {
    /// Returns the kind of sample `number`.
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

    /// Returns whether another sample is of this kind.
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

    /// Returns the number of rows of a column.
    pub(crate) fn rows(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(1, |(_, rows)| *rows)
    }

    /// Returns the pieces of a column.
    pub(crate) fn pieces(&self, column: usize) -> &[Piece] {
        let end_of = |column: usize| self.columns.get(column).map(|(end, _)| *end);
        let start = column.checked_sub(1).and_then(end_of).unwrap_or(0);
        self.pieces.get(start..end_of(column).unwrap_or(0)).unwrap_or_default()
    }
}

/// Returns whether rows of a chunk's column can be read without the other rows. This is determined without reading the
/// payload.
fn is_direct(chunk: &Chunk, index: u32, rows: u32) -> bool {
    chunk
        .column(index as usize)
        .is_some_and(|header| header.rows() == rows || (header.seems_plain() && !chunk.is_delta_encoded()))
}

impl Piece {
    /// Returns whether this piece has the same type in the chunks of other samples and can be read in the same way.
    fn is_like(&self, ours: &[Arc<Chunk>], theirs: &[Arc<Chunk>]) -> bool {
        let (chunk, index) = (self.chunk as usize, self.index as usize);
        let Some((ours, theirs)) = ours.get(chunk).zip(theirs.get(chunk)) else { return false };
        let headers = ours.column(index).zip(theirs.column(index));
        headers.is_some_and(|(ours, theirs)| ours.has_rows_like(theirs))
            && is_direct(theirs, self.index, self.rows) == self.is_direct
    }

    /// Returns the rows of a sample that belong to this piece.
    pub(crate) fn part<'a>(&self, sample: &'a Sampled) -> Option<Part<'a>> {
        let trajectory = &sample.item.trajectory;
        let tensor = trajectory.chunks().get(self.chunk as usize)?.encoded(self.index as usize)?;
        Some(Part {
            tensor,
            first: self.offset.wrapping_add(trajectory.first_row(self.chunk)),
            rows: self.rows,
        })
    }

    /// Returns the same rows in place, if they are stored verbatim.
    pub(crate) fn in_place<'a>(&self, sample: &'a Sampled, row_bytes: usize) -> Option<&'a [u8]> {
        let trajectory = &sample.item.trajectory;
        let first = self.offset.wrapping_add(trajectory.first_row(self.chunk));
        let chunk = trajectory.chunks().get(self.chunk as usize)?;
        chunk.rows_in_place(self.index as usize, row_bytes, first, self.rows)
    }

    /// Returns the identity of the tensor: the chunk's address and the tensor's number.
    pub(crate) fn identity(&self, sample: &Sampled) -> (usize, u32) {
        let chunk = sample.item.trajectory.chunks().get(self.chunk as usize);
        (chunk.map_or(0, |chunk| Arc::as_ptr(chunk).addr()), self.index)
    }
}

/// The number of samples processed side by side. Each group of samples waits for memory only once, and the data of this
/// many samples still fits the L2 cache of a core.
pub(crate) const STAGE: usize = 256;

/// The number of chunks that are prefetched for each item. With more, chunks of other items would leave the cache
/// before they are read.
const TOUCHED_CHUNKS: usize = 4;

/// Prefetches the references to samples' chunks, and then the chunks.
pub(crate) fn prefetch(samples: &[Sampled]) {
    samples.iter().for_each(|sample| prefetch_value(&*sample.item));
    for chunk in samples.iter().flat_map(|sample| sample.item.trajectory.chunks().iter().take(TOUCHED_CHUNKS))
    {
        prefetch_value(&**chunk);
    }
}
