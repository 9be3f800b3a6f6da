//! The rows of the chunk that is being filled.

use std::ops::Range;

use bytes::Bytes;

use super::ChunkerError;
use crate::chunk::SequenceRange;
use crate::limits::CHUNKER_CUT_BYTES;
use crate::{DType, Shape, Tensor, TensorError};

/// Rows that come in one piece of at least this many bytes are kept as they came, and copied once, when the chunk is cut; if
/// they are the whole chunk, they are not copied at all. For smaller ones keeping track costs more than the copy.
const SHARED_PIECE_BYTES: usize = 1024;

/// The cells of the chunk that is being filled.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    key: u64,
    range: SequenceRange,
    rows: u32,
    size_bytes: u64,
    /// The rows are those of the pieces, one after the other, and then those of the tail.
    pieces: Vec<Bytes>,
    tail: Vec<u8>,
    strings: Vec<Bytes>,
}

impl Buffer {
    pub(super) fn new(key: u64, episode_id: u64, step: i32) -> Self {
        let range = SequenceRange { episode_id, start: step, end: step, sparse: false };
        let (pieces, tail, strings) = (Vec::new(), Vec::new(), Vec::new());
        Self { key, range, rows: 0, size_bytes: 0, pieces, tail, strings }
    }

    pub(super) fn key(&self) -> u64 {
        self.key
    }

    pub(super) fn range(&self) -> SequenceRange {
        self.range
    }

    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// Whether the chunk must be cut because of its size.
    pub(super) fn is_large(&self) -> bool {
        self.size_bytes >= CHUNKER_CUT_BYTES
    }

    /// How many rows of `row_bytes` each make the chunk large.
    pub(super) fn rows_until_large(&self, row_bytes: u64) -> u32 {
        let room = CHUNKER_CUT_BYTES.saturating_sub(self.size_bytes);
        u32::try_from(room.div_ceil(row_bytes.max(1))).unwrap_or(u32::MAX)
    }

    pub(super) fn check_step(&self, episode_id: u64, step: i32) -> Result<(), ChunkerError> {
        if episode_id != self.range.episode_id {
            return Err(ChunkerError::Episode { buffered: self.range.episode_id, given: episode_id });
        }
        if step <= self.range.end {
            return Err(ChunkerError::Step { last: self.range.end, given: step });
        }
        Ok(())
    }

    /// Takes the cells of `rows` consecutive steps from `step` on.
    pub(super) fn push(&mut self, step: i32, rows: u32, cells: &Tensor) {
        let follows = self.rows == 0 || self.range.end.checked_add(1) == Some(step);
        self.range.sparse |= !follows;
        self.range.end = step.saturating_add(i32::try_from(rows - 1).unwrap_or(i32::MAX));
        self.rows += rows;
        self.size_bytes += cells.size_bytes();
        match cells.bytes() {
            Some(bytes) if bytes.len() >= SHARED_PIECE_BYTES => {
                if !self.tail.is_empty() {
                    self.pieces.push(std::mem::take(&mut self.tail).into());
                }
                self.pieces.push(bytes.clone());
            }
            Some(bytes) => self.tail.extend_from_slice(bytes),
            None => self.strings.extend_from_slice(cells.strings().unwrap_or_default()),
        }
    }

    /// All rows, `[rows, *cell]`.
    pub(super) fn finish(mut self, dtype: DType, cell: &Shape) -> Tensor {
        let shape = Shape::batched(self.rows, cell.dims());
        let tensor = if dtype == DType::String {
            Tensor::from_strings(self.strings, shape)
        } else {
            Tensor::new(dtype, shape, self.take_bytes())
        };
        tensor.expect("cells of one type and shape make a tensor")
    }

    fn take_bytes(&mut self) -> Bytes {
        match (self.pieces.as_mut_slice(), self.tail.is_empty()) {
            ([], _) => std::mem::take(&mut self.tail).into(),
            ([only], true) => std::mem::take(only),
            _ => self.copied(0..usize::MAX).into(),
        }
    }

    /// A copy of some rows, `[rows, *cell]`.
    pub(super) fn copy(&self, dtype: DType, cell: &Shape, rows: Range<u32>) -> Result<Tensor, TensorError> {
        let shape = Shape::batched(rows.end - rows.start, cell.dims());
        let units = if dtype == DType::String { self.strings.len() } else { self.num_bytes() };
        let per_row = units / index(self.rows).max(1);
        let span = index(rows.start) * per_row..index(rows.end) * per_row;
        if dtype == DType::String {
            let strings = self.strings.get(span).unwrap_or_default();
            return Tensor::from_strings(strings.iter().cloned(), shape);
        }
        Tensor::new(dtype, shape, self.copied(span).into())
    }

    fn num_bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum::<usize>() + self.tail.len()
    }

    /// The bytes in `span`, clamped to those there are.
    fn copied(&self, span: Range<usize>) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.num_bytes().min(span.end).saturating_sub(span.start));
        let mut start = 0;
        for piece in self.pieces.iter().map(AsRef::as_ref).chain([self.tail.as_slice()]) {
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
