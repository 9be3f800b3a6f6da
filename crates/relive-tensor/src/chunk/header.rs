//! The description of a chunk's content.

use std::ops::Range;

use crate::codec::Codec;
use crate::dtype::DType;
use crate::limits::STRING_ELEMENT_BYTES;
use crate::shape::{Shape, are_same, num_elements};

/// The episode and the steps that a chunk covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceRange {
    /// The id of the episode, drawn at random by the writer.
    pub episode_id: u64,
    /// The first step, inclusive.
    pub start: i32,
    /// The last step, inclusive.
    pub end: i32,
    /// Whether steps are missing between `start` and `end`. The number of rows is then not `end - start + 1`.
    pub sparse: bool,
}

/// The type, shape and location of one tensor of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnHeader {
    /// The type of the elements.
    pub dtype: DType,
    /// The compression of the payload; [`Codec::Raw`] for strings, which have their own format.
    pub codec: Codec,
    /// The shape of the whole tensor; the leading dimension is the number of rows.
    pub shape: Shape,
    /// The range of the payload in the chunk's frame, in bytes.
    pub span: Range<u32>,
}

impl ColumnHeader {
    /// Returns the number of rows (steps).
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.shape.rows().unwrap_or(0)
    }

    /// Returns the shape of one row.
    #[must_use]
    pub fn cell_dims(&self) -> &[u32] {
        self.shape.cell_dims()
    }

    /// Returns whether the rows of both columns have the same type and shape.
    #[must_use]
    pub fn has_rows_like(&self, other: &Self) -> bool {
        self.dtype == other.dtype && are_same(self.cell_dims(), other.cell_dims())
    }

    /// Returns whether the payload has the length of uncompressed elements. A payload with a different length is
    /// compressed or consists of several pieces.
    #[must_use]
    pub fn seems_plain(&self) -> bool {
        let len = u64::from(self.span.end.saturating_sub(self.span.start));
        self.fixed_size().is_some_and(|size| self.codec.plain_len(size) == Some(len))
    }

    /// Returns whether the payload consists of the uncompressed elements, preceded by a header if the codec has one.
    pub(super) fn is_plain(&self, frame: &[u8]) -> bool {
        let payload = self.span_usize().and_then(|span| frame.get(span));
        let size = self.fixed_size().and_then(|size| usize::try_from(size).ok());
        payload.zip(size).is_some_and(|(payload, size)| self.codec.plain(payload, size).is_some())
    }

    /// Returns the number of bytes in the decoded elements, or `None` for strings and for sizes beyond 64 bits.
    pub(crate) fn fixed_size(&self) -> Option<u64> {
        let size = u64::try_from(self.dtype.size_bytes()?).ok()?;
        self.shape.num_elements()?.checked_mul(size)
    }

    /// Returns the number of bytes in one row. The characters of strings are not counted, because slices of a chunk
    /// share them.
    pub(crate) fn row_size(&self) -> u64 {
        let size = self.dtype.size_bytes().and_then(|size| u64::try_from(size).ok());
        let cells = num_elements(self.cell_dims()).unwrap_or(u64::MAX);
        cells.saturating_mul(size.unwrap_or(STRING_ELEMENT_BYTES))
    }

    /// Returns the span as indices.
    pub(crate) fn span_usize(&self) -> Option<Range<usize>> {
        Some(usize::try_from(self.span.start).ok()?..usize::try_from(self.span.end).ok()?)
    }
}
