//! Rows, their common part, and the copying of their columns.

use std::sync::Arc;

use relive_prefetch::{prefetch, prefetch_payloads};
use smallvec::SmallVec;

use crate::layout::ColumnLayout;

/// The largest gap, in bytes, between columns that are prefetched together.
const MAX_GAP: i64 = 16;

/// The location of one item's columns, which a [`RowLayout`] describes.
#[derive(Clone, Debug)]
pub struct Row {
    pub(super) frame: Arc<[u8]>,
    pub(super) origin: u32,
    pub(super) first: u32,
}

impl Row {
    /// Prefetches the beginning of the row's block, with its reference count.
    pub fn prefetch(&self) {
        prefetch(Arc::as_ptr(&self.frame));
    }

    /// Returns bytes whose position is relative to the row's.
    #[inline]
    fn bytes(&self, part: RowPart) -> Option<&[u8]> {
        let start = i64::from(self.origin) + part.start + i64::from(self.first) * i64::from(part.stride);
        let start = usize::try_from(start).ok()?;
        self.frame.get(start..start + part.bytes as usize)
    }
}

/// The common part of rows: their columns and the columns' offsets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowLayout {
    pub(super) columns: SmallVec<[RowColumn; 1]>,
    /// The parts that are prefetched; consecutive columns form one part.
    spans: SmallVec<[RowPart; 1]>,
}

/// A column of rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowColumn {
    pub(super) layout: ColumnLayout,
    pub(super) part: RowPart,
}

/// Bytes of a row, relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowPart {
    /// The offset in bytes from the origin, for an item whose first row in the chunk is row 0.
    pub(super) start: i64,
    /// The distance in bytes between consecutive rows of the chunk.
    pub(super) stride: u32,
    pub(super) bytes: u32,
}

impl RowPart {
    fn end(self) -> i64 {
        self.start + i64::from(self.bytes)
    }
}

impl RowLayout {
    pub(super) fn new(columns: SmallVec<[RowColumn; 1]>) -> Self {
        let mut spans: SmallVec<[RowPart; 1]> = SmallVec::new();
        for RowColumn { part, .. } in &columns {
            match spans.last_mut() {
                // Usually, the chunk has no other rows, so the columns are adjacent in every item. If it has a few more
                // rows, the part may not include the whole of a later column, which is then fetched when it is copied.
                Some(span) if (0..=MAX_GAP).contains(&(part.start - span.end())) => {
                    span.bytes = u32::try_from(part.end() - span.start).unwrap_or(span.bytes);
                }
                _ => spans.push(*part),
            }
        }
        Self { columns, spans }
    }

    /// Iterates over the layouts of the columns.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &ColumnLayout> {
        self.columns.iter().map(|column| &column.layout)
    }

    /// Returns the number of bytes in all columns.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.part.bytes as usize).sum()
    }

    /// Returns the bytes of a column of a row with this layout.
    #[must_use]
    pub fn column<'a>(&self, row: &'a Row, column: usize) -> Option<&'a [u8]> {
        row.bytes(self.columns.get(column)?.part)
    }

    /// Prefetches rows with this layout.
    pub fn prefetch<'a>(&self, rows: &(impl Iterator<Item = &'a Row> + Clone)) {
        for &span in &self.spans {
            prefetch_payloads(rows.clone().filter_map(|row| row.bytes(span)));
        }
    }

    /// Copies a column of rows with this layout to `to`, row after row. Small sizes are copied inline, because a
    /// function call takes longer than the copy.
    pub fn copy_column<'a>(&self, column: usize, rows: impl Iterator<Item = &'a Row>, to: &mut [u8]) {
        let Some(&RowColumn { part, .. }) = self.columns.get(column) else { return };
        match part.bytes {
            0 => {}
            1 => copy_each::<1>(part, rows, to),
            2 => copy_each::<2>(part, rows, to),
            4 => copy_each::<4>(part, rows, to),
            8 => copy_each::<8>(part, rows, to),
            16 => copy_each::<16>(part, rows, to),
            32 => copy_each::<32>(part, rows, to),
            64 => copy_each::<64>(part, rows, to),
            size => {
                for (to, row) in to.chunks_exact_mut(size as usize).zip(rows) {
                    if let Some(bytes) = row.bytes(part) {
                        to.copy_from_slice(bytes);
                    }
                }
            }
        }
    }
}

/// Copies a part of `N` bytes of each row.
fn copy_each<'a, const N: usize>(part: RowPart, rows: impl Iterator<Item = &'a Row>, to: &mut [u8]) {
    for (to, row) in to.as_chunks_mut::<N>().0.iter_mut().zip(rows) {
        if let Some(bytes) = row.bytes(part).and_then(<[u8]>::as_array) {
            *to = *bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::dtype::DType;

    #[test]
    fn columns_of_every_size_are_copied() {
        let from: Arc<[u8]> = (0..200).collect();
        for len in 0..100_u32 {
            let part = RowPart { start: 0, stride: 1, bytes: len };
            let column = RowColumn { layout: ColumnLayout::new(DType::UInt8, true, 1, &[len]), part };
            let layout = RowLayout::new(smallvec![column]);
            // The third row is not completely inside its frame, so its destination stays unchanged.
            let rows = [(0, 0), (1, 0), (200, 1), (2, 3)].map(|(origin, first)| Row {
                frame: Arc::clone(&from),
                origin,
                first,
            });
            let size = len as usize;
            let mut to = vec![0xff; 4 * size];
            layout.copy_column(0, rows.iter(), &mut to);
            let expected = [&from[..size], &from[1..=size], &vec![0xff; size], &from[5..size + 5]];
            assert_eq!(to, expected.concat(), "{len}");
        }
    }
}
