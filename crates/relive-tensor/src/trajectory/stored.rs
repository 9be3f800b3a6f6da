//! The stored trajectory and views of its columns.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::chunk::{Chunk, ColumnHeader};
use crate::{DType, Shape};

/// Some consecutive rows of one tensor of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The chunk, as a position in [`Trajectory::chunks`].
    pub chunk: u32,
    /// First row.
    pub offset: u32,
    /// Number of rows, at least 1.
    pub length: u32,
    /// Which tensor of the chunk.
    pub index: u32,
}

/// How one column is cut out of the list of all slices: it ends at `slices_end` and starts where the column before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpan {
    /// End of the column's slices, exclusive.
    pub slices_end: u32,
    /// Whether the leading dimension, which is then 1, is dropped.
    pub squeeze: bool,
}

/// The data of an item: for every column, slices of chunks to be concatenated. Made by
/// [`TrajectoryBuilder`](super::TrajectoryBuilder), which checks that every slice is there.
///
/// An item of one column and one slice takes no heap memory of its own.
#[derive(Clone, Debug)]
pub struct Trajectory {
    pub(super) chunks: SmallVec<[Arc<Chunk>; 1]>,
    pub(super) columns: SmallVec<[ColumnSpan; 2]>,
    pub(super) slices: SmallVec<[Slice; 1]>,
}

/// View of one column of a [`Trajectory`].
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    chunks: &'a [Arc<Chunk>],
    slices: &'a [Slice],
    squeeze: bool,
}

/// A column that is a single slice.
#[derive(Clone, Copy, Debug)]
pub struct OnlySlice<'a> {
    /// The chunk.
    pub chunk: &'a Arc<Chunk>,
    /// Its position in [`Trajectory::chunks`].
    pub chunk_number: u32,
    /// Which tensor of the chunk.
    pub index: usize,
    /// First row.
    pub offset: u32,
    /// Number of rows.
    pub length: u32,
    /// Whether the leading dimension, which is then 1, is dropped.
    pub squeeze: bool,
}

impl Trajectory {
    /// The distinct chunks, in order of first appearance.
    #[must_use]
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Number of columns, at least one.
    #[must_use]
    pub fn num_columns(&self) -> usize {
        self.columns.len()
    }

    /// Number of slices of all columns together.
    #[must_use]
    pub fn num_slices(&self) -> usize {
        self.slices.len()
    }

    /// The columns in the flattening order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = Column<'_>> {
        (0..self.columns.len()).map(|index| self.view(index))
    }

    /// A column.
    #[must_use]
    pub fn column(&self, index: usize) -> Option<Column<'_>> {
        (index < self.columns.len()).then(|| self.view(index))
    }

    /// Size of the distinct chunks' frames in bytes, as in what is sent to a reader.
    #[must_use]
    pub fn encoded_size_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.size_bytes()).sum()
    }

    /// A draft for the builder. It is no valid trajectory, so it is not public.
    pub(super) fn empty() -> Self {
        Self { chunks: SmallVec::new(), columns: SmallVec::new(), slices: SmallVec::new() }
    }

    /// The slice of a column, if all columns are one slice each: most items of one step, or of one chunk, are.
    #[inline]
    #[must_use]
    pub fn only_slice(&self, column: usize) -> Option<OnlySlice<'_>> {
        let (slices, columns) = (self.slices.as_slice(), self.columns.as_slice());
        // Every column has a slice, so that as many slices as columns are one each.
        if slices.len() != columns.len() {
            return None;
        }
        let slice = slices.get(column)?;
        let chunk = self.chunks.get(usize::try_from(slice.chunk).ok()?)?;
        let index = usize::try_from(slice.index).ok()?;
        let squeeze = columns.get(column)?.squeeze;
        let (chunk_number, offset, length) = (slice.chunk, slice.offset, slice.length);
        Some(OnlySlice { chunk, chunk_number, index, offset, length, squeeze })
    }

    fn view(&self, index: usize) -> Column<'_> {
        let end_of = |column: usize| {
            let end = self.columns.get(column).map_or(0, |span| span.slices_end);
            usize::try_from(end).unwrap_or(usize::MAX)
        };
        let start = index.checked_sub(1).map_or(0, end_of);
        Column {
            chunks: &self.chunks,
            slices: self.slices.get(start..end_of(index)).unwrap_or_default(),
            squeeze: self.columns.get(index).is_some_and(|span| span.squeeze),
        }
    }
}

impl<'a> Column<'a> {
    /// Whether the leading dimension, which is then 1, is dropped.
    #[must_use]
    pub fn squeeze(&self) -> bool {
        self.squeeze
    }

    /// The slices to be concatenated, at least one.
    #[must_use]
    pub fn slices(&self) -> &'a [Slice] {
        self.slices
    }

    /// Number of rows of all slices together, before squeezing.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.slices.iter().fold(0, |rows, slice| rows.saturating_add(slice.length))
    }

    /// Type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        // A column without slices cannot be built; the default is never seen.
        self.header().map_or(DType::UInt8, |header| header.dtype)
    }

    /// Sizes of the dimensions of one row.
    #[must_use]
    pub fn cell_shape(&self) -> &'a [u32] {
        self.header().map(ColumnHeader::cell_dims).unwrap_or_default()
    }

    /// Shape of the decoded column: `[rows, *cell]`, or that of the cell if it is squeezed.
    #[must_use]
    pub fn shape(&self) -> Shape {
        if self.squeeze {
            Shape::from(self.cell_shape())
        } else {
            Shape::batched(self.rows(), self.cell_shape())
        }
    }

    /// The chunk that a slice of this column lies in.
    #[must_use]
    pub fn chunk_of(&self, slice: &Slice) -> Option<&'a Arc<Chunk>> {
        self.chunks.get(usize::try_from(slice.chunk).ok()?)
    }

    pub(super) fn num_chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Key of the chunk that a slice of this column lies in, for messages.
    pub(super) fn key_of(&self, slice: &Slice) -> u64 {
        self.chunk_of(slice).map_or(0, |chunk| chunk.key())
    }

    /// Header of the tensor that a slice of this column lies in.
    pub(super) fn header_of(&self, slice: &Slice) -> Option<&'a ColumnHeader> {
        self.chunk_of(slice)?.column(usize::try_from(slice.index).ok()?)
    }

    /// Header of the first slice's tensor; all slices agree in type and shape of a row.
    pub(super) fn header(&self) -> Option<&'a ColumnHeader> {
        self.header_of(self.slices.first()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_column_of_one_slice_is_small_and_inline() {
        assert!(size_of::<Trajectory>() <= 80, "Trajectory takes {} bytes", size_of::<Trajectory>());
    }
}
