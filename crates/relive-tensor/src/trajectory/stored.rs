//! The stored trajectory and views of its columns.

use std::sync::Arc;

use smallvec::SmallVec;

use super::pattern::{Pattern, first_row};
use super::slice::{ColumnSpan, OnlySlice, Slice};
use crate::chunk::{Chunk, ColumnHeader};
use crate::dtype::DType;
use crate::shape::Shape;

/// The data of an item: for every column, slices of chunks to be concatenated.
/// [`TrajectoryBuilder`](super::TrajectoryBuilder) creates it and checks that every slice exists.
///
/// An item with one column and one slice needs no additional heap memory, and items of one builder share their slicing
/// patterns.
#[derive(Clone, Debug)]
pub struct Trajectory {
    pub(super) chunks: SmallVec<[Arc<Chunk>; 1]>,
    /// The row to which the pattern's offsets in the first chunk are relative.
    pub(super) first: u32,
    pub(super) pattern: Pattern,
}

/// A view of one column of a [`Trajectory`].
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    chunks: &'a [Arc<Chunk>],
    first: u32,
    slices: &'a [Slice],
    squeeze: bool,
}

impl Trajectory {
    /// Returns the distinct chunks, in order of first appearance.
    #[must_use]
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Returns the number of columns, at least one.
    #[must_use]
    pub fn num_columns(&self) -> usize {
        self.pattern.columns().len()
    }

    /// Returns the total number of slices of all columns.
    #[must_use]
    pub fn num_slices(&self) -> usize {
        self.pattern.slices().len()
    }

    /// Returns whether the trajectory has the same slicing pattern as `other`, apart from the [first
    /// rows](Self::first_row).
    #[must_use]
    pub fn is_cut_like(&self, other: &Self) -> bool {
        self.chunks.len() == other.chunks.len() && self.pattern == other.pattern
    }

    /// Returns a hash of the slicing pattern; see [`is_cut_like`](Self::is_cut_like).
    #[must_use]
    pub fn cut_hash(&self) -> u64 {
        self.pattern.hash()
    }

    /// Returns the row of a chunk to which the slices are relative. Items with the same slicing pattern differ only in
    /// these rows.
    #[must_use]
    pub fn first_row(&self, chunk: u32) -> u32 {
        first_row(self.first, chunk)
    }

    /// Iterates over the columns in flattening order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = Column<'_>> {
        self.view().columns()
    }

    /// A column.
    #[must_use]
    pub fn column(&self, index: usize) -> Option<Column<'_>> {
        self.view().column(index)
    }

    /// Returns the size of the distinct chunks' frames in bytes, as sent to a reader.
    #[must_use]
    pub fn encoded_size_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.size_bytes()).sum()
    }

    /// Returns the slice of a column if every column is a single slice, which is the case for most items that consist
    /// of one step or one chunk.
    #[inline]
    #[must_use]
    pub fn only_slice(&self, column: usize) -> Option<OnlySlice<'_>> {
        let (slices, columns) = (self.pattern.slices(), self.pattern.columns());
        // Every column has a slice, so equal numbers of slices and columns mean one slice per column.
        if slices.len() != columns.len() {
            return None;
        }
        let slice = slices.get(column)?;
        let chunk = self.chunks.get(usize::try_from(slice.chunk).ok()?)?;
        let index = usize::try_from(slice.index).ok()?;
        let squeeze = columns.get(column)?.squeeze;
        let (chunk_number, offset) = (slice.chunk, slice.offset.wrapping_add(self.first_row(slice.chunk)));
        Some(OnlySlice { chunk, chunk_number, index, offset, length: slice.length, squeeze })
    }

    fn view(&self) -> Columns<'_> {
        let (spans, slices) = (self.pattern.columns(), self.pattern.slices());
        Columns { chunks: &self.chunks, first: self.first, spans, slices }
    }
}

/// The columns of a trajectory, or of one under construction.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) chunks: &'a [Arc<Chunk>],
    pub(super) first: u32,
    pub(super) spans: &'a [ColumnSpan],
    pub(super) slices: &'a [Slice],
}

impl<'a> Columns<'a> {
    pub(super) fn columns(self) -> impl ExactSizeIterator<Item = Column<'a>> {
        let mut start = 0;
        self.spans.iter().map(move |span| {
            let end = usize::try_from(span.slices_end).unwrap_or(usize::MAX);
            let slices = self.slices.get(start..end).unwrap_or_default();
            start = end;
            Column { chunks: self.chunks, first: self.first, slices, squeeze: span.squeeze }
        })
    }

    fn column(self, index: usize) -> Option<Column<'a>> {
        let end_of = |span: &ColumnSpan| usize::try_from(span.slices_end).unwrap_or(usize::MAX);
        let span = self.spans.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.spans.get(before)).map_or(0, end_of);
        let slices = self.slices.get(start..end_of(span)).unwrap_or_default();
        Some(Column { chunks: self.chunks, first: self.first, slices, squeeze: span.squeeze })
    }
}

impl<'a> Column<'a> {
    /// Returns whether the leading dimension, which is then 1, is dropped.
    #[must_use]
    pub fn squeeze(&self) -> bool {
        self.squeeze
    }

    /// Returns the slices to be concatenated, at least one.
    pub fn slices(&self) -> impl ExactSizeIterator<Item = Slice> + Clone + 'a {
        let first = self.first;
        self.slices.iter().map(move |slice| {
            let offset = slice.offset.wrapping_add(first_row(first, slice.chunk));
            Slice { offset, ..*slice }
        })
    }

    /// Returns the number of rows of all slices together, before squeezing.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.slices.iter().fold(0, |rows: u32, slice| rows.saturating_add(slice.length))
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        // A column without slices cannot be built, so the default is never returned.
        self.header().map_or(DType::UInt8, |header| header.dtype)
    }

    /// Returns the sizes of the dimensions of one row.
    #[must_use]
    pub fn cell_shape(&self) -> &'a [u32] {
        self.header().map(ColumnHeader::cell_dims).unwrap_or_default()
    }

    /// Returns the shape of the decoded column: `[rows, *cell]`, or the shape of the cell if the column is squeezed.
    #[must_use]
    pub fn shape(&self) -> Shape {
        if self.squeeze {
            Shape::from(self.cell_shape())
        } else {
            Shape::batched(self.rows(), self.cell_shape())
        }
    }

    /// Returns the chunk that contains a slice of this column.
    #[must_use]
    pub fn chunk_of(&self, slice: &Slice) -> Option<&'a Arc<Chunk>> {
        self.chunks.get(usize::try_from(slice.chunk).ok()?)
    }

    pub(super) fn num_chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the key of the chunk that contains a slice of this column, for use in messages.
    pub(super) fn key_of(&self, slice: &Slice) -> u64 {
        self.chunk_of(slice).map_or(0, |chunk| chunk.key())
    }

    /// Returns the header of the tensor to which a slice of this column refers.
    pub(super) fn header_of(&self, slice: &Slice) -> Option<&'a ColumnHeader> {
        self.chunk_of(slice)?.column(usize::try_from(slice.index).ok()?)
    }

    /// Returns the header of the first slice's tensor. All slices have rows of the same type and shape.
    pub(super) fn header(&self) -> Option<&'a ColumnHeader> {
        self.header_of(&self.slices().next()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_column_of_one_slice_is_small_and_inline() {
        assert!(size_of::<Trajectory>() <= 56, "Trajectory takes {} bytes", size_of::<Trajectory>());
    }
}
