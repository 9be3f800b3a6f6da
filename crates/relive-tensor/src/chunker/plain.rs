//! An uncompressed chunk whose sizes are known before it is written.

use std::sync::Arc;

use smallvec::SmallVec;

use super::cut_column::CutColumn;
use crate::chunk::{ChunkFault, ColumnHeader, Encoded, SequenceRange};
use crate::codec::Codec;
use crate::dtype::DType;
use crate::limits::MAX_CHUNK_BYTES;
use crate::shape::Shape;
use crate::tensor::to_u64;

/// A [`Cut`](super::Cut) with only uncompressed columns.
#[derive(Debug)]
pub struct PlainCut<'a> {
    key: u64,
    range: SequenceRange,
    columns: SmallVec<[PlainColumn<'a>; 8]>,
    /// The number of bytes in all payloads.
    size: usize,
}

/// A column of a [`PlainCut`].
#[derive(Debug)]
pub struct PlainColumn<'a> {
    column: &'a CutColumn<'a>,
    codec: Codec,
    shape: Shape,
    /// The header that the codec puts before the rows.
    head: SmallVec<[u8; 10]>,
}

impl<'a> PlainCut<'a> {
    pub(super) fn new(key: u64, range: SequenceRange, num_columns: usize) -> Self {
        Self { key, range, columns: SmallVec::with_capacity(num_columns), size: 0 }
    }

    pub(super) fn add(&mut self, column: &'a CutColumn<'a>, codec: Codec) -> Result<(), ChunkFault> {
        let head = match codec {
            Codec::Raw => SmallVec::new(),
            _ => Codec::stored_head(column.num_bytes())?,
        };
        self.size += head.len() + column.num_bytes();
        if to_u64(self.size) > MAX_CHUNK_BYTES {
            return Err(ChunkFault::Frame { size: to_u64(self.size) });
        }
        let shape = Shape::batched(column.rows(), column.cell_dims);
        self.columns.push(PlainColumn { column, codec, shape, head });
        Ok(())
    }

    /// Returns the key of the chunk.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Returns the episode and steps covered.
    #[must_use]
    pub fn range(&self) -> SequenceRange {
        self.range
    }

    /// Returns the columns in the order in which the chunk contains them.
    #[must_use]
    pub fn columns(&self) -> &[PlainColumn<'a>] {
        &self.columns
    }

    /// Returns the frame and its headers. The rows are copied once, to their final place.
    pub(super) fn encode(&self) -> Encoded {
        let mut headers = SmallVec::with_capacity(self.columns.len());
        let mut start = 0_u32;
        for column in &self.columns {
            // The sum of the lengths is within the limit for a chunk.
            let end = start + u32::try_from(column.len()).unwrap_or(0);
            let (dtype, codec, shape) = (column.dtype(), column.codec, column.shape.clone());
            headers.push(ColumnHeader { dtype, codec, shape, span: start..end });
            start = end;
        }
        if let [PlainColumn { column, codec: Codec::Raw, .. }] = self.columns.as_slice()
            && let Some(bytes) = column.whole()
        {
            // Filling the memory piece by piece would require clearing it first, which this avoids.
            return (bytes.into(), headers);
        }
        let mut frame = bytemuck::allocation::zeroed_arc_slice(self.size);
        let mut rest = Arc::get_mut(&mut frame).unwrap_or_default();
        for part in self.columns.iter().flat_map(PlainColumn::parts) {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        (frame, headers)
    }
}

impl PlainColumn<'_> {
    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.column.dtype
    }

    /// Returns the codec that decodes the result.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Returns the shape of the whole column; the leading dimension is the number of rows.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the number of bytes in the elements.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        self.column.num_bytes()
    }

    /// Returns the number of bytes in the payload.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a column has rows")]
    pub fn len(&self) -> usize {
        self.head.len() + self.column.num_bytes()
    }

    /// Iterates over the pieces of the payload.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.head.as_slice()).chain(self.column.parts())
    }
}
