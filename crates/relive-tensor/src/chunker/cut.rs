//! A full chunk before it is encoded.

use smallvec::SmallVec;

use super::cut_column::{CutColumn, Encoding};
use super::plain::PlainCut;
use crate::chunk::{ChunkError, ChunkFault, ChunkParts, SequenceRange, encode_payloads};
use crate::codec::delta;
use crate::dtype::DType;
use crate::limits::MAX_CHUNK_COLUMNS;
use crate::shape::Shape;

/// A cut chunk: borrowed rows of its columns, not encoded yet.
#[derive(Clone, Debug)]
pub struct Cut<'a> {
    pub(super) key: u64,
    pub(super) range: SequenceRange,
    pub(super) delta: bool,
    pub(super) columns: SmallVec<[CutColumn<'a>; 8]>,
}

impl<'a> Cut<'a> {
    /// Returns the key of the chunk, which is part of the references to its cells.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Returns the episode and steps covered. `sparse` is set if a column lacks a row for one of the steps.
    #[must_use]
    pub fn range(&self) -> SequenceRange {
        self.range
    }

    /// Returns the columns in the order in which the chunk contains them.
    #[must_use]
    pub fn columns(&self) -> &[CutColumn<'a>] {
        &self.columns
    }

    /// Encodes the chunk. `how` returns the encoding of each column by its position in the chunk.
    ///
    /// # Errors
    /// [`ChunkError`] if a column cannot be encoded or the frame grows beyond
    /// [`MAX_CHUNK_BYTES`](crate::limits::MAX_CHUNK_BYTES).
    pub fn encode(&self, how: impl FnMut(usize) -> Encoding) -> Result<ChunkParts, ChunkError> {
        let encodings: SmallVec<[Encoding; 8]> = (0..self.columns.len()).map(how).collect();
        let (key, range, verbatim) = (self.key, self.range, false);
        if let Some(plain) = self.plain(|column| encodings.get(column).copied())? {
            let (frame, columns) = plain.encode();
            return Ok(ChunkParts { key, range, columns, delta_encoded: false, frame, verbatim });
        }
        let shape = |column: &CutColumn<'_>| Shape::batched(column.rows, column.cell_dims);
        let shapes: SmallVec<[Shape; 8]> = self.columns.iter().map(shape).collect();
        let columns = || self.columns.iter().zip(&shapes).zip(&encodings);
        // Delta coding is applied to either all columns of a chunk that allow it, or none of them.
        let mut with_delta =
            columns().filter(|((column, shape), _)| delta::applies(column.dtype, shape)).peekable();
        let delta_encoded = self.delta
            && with_delta.peek().is_some()
            && with_delta.all(|(_, encoding)| encoding.plain_codec().is_none());
        let described = columns().map(|((column, shape), _)| (column.dtype, shape));
        let (frame, columns) = encode_payloads(self.key, described, |index, frame| {
            let (Some(column), Some(shape), Some(encoding)) =
                (self.columns.get(index), shapes.get(index), encodings.get(index))
            else {
                return Err(ChunkFault::NoSuchColumn { columns: self.columns.len() });
            };
            Ok(column.encode(shape, *encoding, delta_encoded, frame)?)
        })?;
        Ok(ChunkParts { key, range, columns, delta_encoded, frame, verbatim })
    }

    /// Returns the uncompressed chunk if `how` returns an uncompressed encoding for each column, no column has strings,
    /// and there are no more columns than a chunk may have.
    ///
    /// # Errors
    /// [`ChunkError`] if the frame grows beyond [`MAX_CHUNK_BYTES`](crate::limits::MAX_CHUNK_BYTES).
    pub fn plain(&self, how: impl Fn(usize) -> Option<Encoding>) -> Result<Option<PlainCut<'_>>, ChunkError> {
        if self.columns.len() > MAX_CHUNK_COLUMNS {
            return Ok(None);
        }
        let mut plain = PlainCut::new(self.key, self.range, self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let codec = how(index).and_then(Encoding::plain_codec).filter(|_| column.dtype != DType::String);
            let Some(codec) = codec else { return Ok(None) };
            plain.add(column, codec).map_err(|fault| ChunkError {
                key: self.key,
                column: Some(index),
                fault,
            })?;
        }
        Ok(Some(plain))
    }
}
