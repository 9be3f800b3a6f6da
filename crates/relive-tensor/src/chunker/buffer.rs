//! The buffered rows of one column.

use std::ops::Range;

use bytes::Bytes;

use super::rows::{RowData, Rows};
use crate::dtype::DType;
use crate::shape::Shape;
use crate::tensor::{Tensor, TensorError};

/// If possible, rows that form one piece of at least this number of bytes are kept without a copy, and are copied only
/// when the chunk is cut. Tracking smaller pieces would cost more than copying them.
const SHARED_PIECE_BYTES: usize = 1024;

/// The largest tail that keeps its memory for the next chunk, in bytes.
const MAX_KEPT_BYTES: usize = 64 << 10;

/// The rows of the pieces in order, followed by the rows of the tail.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    rows: u32,
    pieces: Vec<Bytes>,
    tail: Vec<u8>,
    strings: Vec<Bytes>,
}

impl Buffer {
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    pub(super) fn push(&mut self, rows: &Rows<'_>) {
        self.rows += rows.rows();
        match rows.data() {
            RowData::Shared { bytes, start, end } if end - start >= SHARED_PIECE_BYTES => {
                if !self.tail.is_empty() {
                    self.pieces.push(std::mem::take(&mut self.tail).into());
                }
                self.pieces.push(bytes.slice(start..end));
            }
            RowData::Strings(strings) => self.strings.extend_from_slice(strings),
            fixed => self.tail.extend_from_slice(fixed.bytes()),
        }
    }

    /// Empties the buffer but keeps its memory.
    pub(super) fn clear(&mut self) {
        self.rows = 0;
        self.pieces.clear();
        self.strings.clear();
        self.tail.clear();
        if self.tail.capacity() > MAX_KEPT_BYTES {
            self.tail = Vec::new();
        }
    }

    pub(super) fn strings(&self) -> &[Bytes] {
        &self.strings
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.pieces.iter().map(AsRef::as_ref).chain([self.tail.as_slice()])
    }

    /// Returns the bytes if they are in one piece.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match (self.pieces.as_slice(), self.tail.as_slice()) {
            ([], tail) => Some(tail),
            ([only], []) => Some(only),
            _ => None,
        }
    }

    pub(super) fn num_bytes(&self) -> usize {
        self.parts().map(<[u8]>::len).sum()
    }

    /// Returns a copy of some rows, `[rows, *cell]`.
    pub(super) fn copy(&self, dtype: DType, cell: &Shape, rows: Range<u32>) -> Result<Tensor, TensorError> {
        let shape = Shape::batched(rows.end - rows.start, cell.dims());
        let units = if dtype == DType::String { self.strings.len() } else { self.num_bytes() };
        let per_row = units / index(self.rows).max(1);
        let span = index(rows.start) * per_row..index(rows.end) * per_row;
        if dtype == DType::String {
            let strings = self.strings.get(span).unwrap_or_default();
            return Tensor::from_strings(strings.iter().cloned(), shape);
        }
        Tensor::new(dtype, shape, self.copied(&span).into())
    }

    /// Returns a copy of the bytes in `span`, clamped to the existing bytes.
    fn copied(&self, span: &Range<usize>) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.num_bytes().min(span.end).saturating_sub(span.start));
        let mut start = 0;
        for piece in self.parts() {
            let within = |at: usize| at.saturating_sub(start).min(piece.len());
            copy.extend_from_slice(piece.get(within(span.start)..within(span.end)).unwrap_or_default());
            start += piece.len();
        }
        copy
    }
}

fn index(rows: u32) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}
