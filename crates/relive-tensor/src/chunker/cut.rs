//! A chunk that is full, on the way to its encoded form.

use bytes::Bytes;
use smallvec::SmallVec;

use super::buffer::Buffer;
use super::plain::PlainCut;
use super::rows::RowData;
use crate::chunk::{ChunkError, ChunkFault, ChunkParts, SequenceRange, encode_bytes, encode_payloads};
use crate::codec::{Codec, CodecError, delta, strings};
use crate::limits::MAX_CHUNK_COLUMNS;
use crate::{DType, Shape, Tensor, TensorError};

/// A chunk that was cut: rows of its columns, not yet encoded, and borrowed from where they lie.
#[derive(Clone, Debug)]
pub struct Cut<'a> {
    pub(super) key: u64,
    pub(super) range: SequenceRange,
    pub(super) delta: bool,
    pub(super) columns: SmallVec<[CutColumn<'a>; 8]>,
}

/// The rows of one column of a [`Cut`].
#[derive(Clone, Debug)]
pub struct CutColumn<'a> {
    pub(super) column: usize,
    pub(super) dtype: DType,
    pub(super) cell_dims: &'a [u32],
    pub(super) rows: u32,
    pub(super) data: CutData<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CutData<'a> {
    /// In the caller's memory.
    Given(RowData<'a>),
    Buffered(&'a Buffer),
}

/// How the payload of a column is to be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// By this codec; what it does not make shorter is left as it is.
    With(Codec),
    /// As it is, in a form that decoders of [`Codec::Snappy`] read.
    Stored,
    /// As it is, with nothing before it: a column in one piece is copied at once.
    Bare,
}

impl Encoding {
    /// The codec of what is stored as it is.
    fn plain_codec(self) -> Option<Codec> {
        match self {
            Self::With(_) => None,
            Self::Stored => Some(Codec::Snappy),
            Self::Bare => Some(Codec::Raw),
        }
    }
}

impl<'a> Cut<'a> {
    /// Key of the chunk, the one in its cells' references.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Episode and steps covered; `sparse` if a column has no row for one of them.
    #[must_use]
    pub fn range(&self) -> SequenceRange {
        self.range
    }

    /// Its columns, in the order in which the chunk has them.
    #[must_use]
    pub fn columns(&self) -> &[CutColumn<'a>] {
        &self.columns
    }

    /// Encodes the chunk, each column as `how` says of its place in the chunk.
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
        // A chunk has differences in all columns that can have them, or in none.
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

    /// The chunk as it is, if `how` says so of each of its columns, which are no strings, and no more than a chunk may have.
    ///
    /// # Errors
    /// [`ChunkError`] if the frame grows beyond [`MAX_CHUNK_BYTES`](crate::limits::MAX_CHUNK_BYTES).
    pub fn plain(&self, how: impl Fn(usize) -> Option<Encoding>) -> Result<Option<PlainCut<'_>>, ChunkError> {
        if self.columns.len() > MAX_CHUNK_COLUMNS {
            return Ok(None);
        }
        let mut plain = PlainCut::new(self);
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

impl CutColumn<'_> {
    /// Number of the column in its chunker.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// Number of rows, at least one.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes of the elements; 0 of strings.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        match self.data {
            CutData::Given(data) => data.bytes().len(),
            CutData::Buffered(buffer) => buffer.num_bytes(),
        }
    }

    /// The rows as a tensor of its own, `[rows, *cell]`.
    ///
    /// # Errors
    /// [`TensorError`] never occurs for rows that were taken; it is what making a tensor may say.
    pub fn to_tensor(&self) -> Result<Tensor, TensorError> {
        let shape = Shape::batched(self.rows, self.cell_dims);
        if self.dtype == DType::String {
            return Tensor::from_strings(self.strings().iter().cloned(), shape);
        }
        Tensor::new(self.dtype, shape, self.joined().into())
    }

    /// Appends the payload, and tells how it is coded.
    fn encode(
        &self,
        shape: &Shape,
        encoding: Encoding,
        use_delta: bool,
        frame: &mut Vec<u8>,
    ) -> Result<Codec, CodecError> {
        if self.dtype == DType::String {
            return strings::encode(self.strings(), frame).map(|()| Codec::Raw);
        }
        let codec = match encoding {
            Encoding::Stored => return Codec::store(self.parts(), frame).map(|()| Codec::Snappy),
            Encoding::Bare => {
                self.parts().for_each(|part| frame.extend_from_slice(part));
                return Ok(Codec::Raw);
            }
            Encoding::With(codec) => codec,
        };
        if use_delta && delta::applies(self.dtype, shape) {
            let mut differences = self.joined();
            delta::encode(self.dtype, shape, &mut differences);
            return encode_bytes(&differences, codec, frame);
        }
        match self.whole() {
            Some(bytes) => encode_bytes(bytes, codec, frame),
            None => encode_bytes(&self.joined(), codec, frame),
        }
    }

    fn joined(&self) -> Vec<u8> {
        let mut joined = Vec::with_capacity(self.num_bytes());
        self.parts().for_each(|part| joined.extend_from_slice(part));
        joined
    }

    /// The elements, unless they are strings, in some pieces.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let (given, buffered) = match self.data {
            CutData::Given(data) => (Some(data.bytes()), None),
            CutData::Buffered(buffer) => (None, Some(buffer.parts())),
        };
        given.into_iter().chain(buffered.into_iter().flatten())
    }

    /// The elements, if they lie in one piece.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self.data {
            CutData::Given(data) => Some(data.bytes()),
            CutData::Buffered(buffer) => buffer.whole(),
        }
    }

    fn strings(&self) -> &[Bytes] {
        match self.data {
            CutData::Given(RowData::Strings(strings)) => strings,
            CutData::Given(_) => &[],
            CutData::Buffered(buffer) => buffer.strings(),
        }
    }
}
