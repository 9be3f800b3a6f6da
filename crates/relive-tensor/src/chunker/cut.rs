//! A chunk that is full, on the way to its encoded form.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::buffer::Buffer;
use super::rows::RowData;
use crate::chunk::{
    ChunkError, ChunkFault, ChunkParts, ColumnHeader, Encoded, SequenceRange, encode_bytes, encode_payloads,
};
use crate::codec::{Codec, CodecError, delta, strings};
use crate::limits::MAX_CHUNK_BYTES;
use crate::tensor::to_u64;
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
        let shape = |column: &CutColumn<'_>| Shape::batched(column.rows, column.cell_dims);
        let shapes: SmallVec<[Shape; 8]> = self.columns.iter().map(shape).collect();
        let encodings: SmallVec<[Encoding; 8]> = (0..self.columns.len()).map(how).collect();
        let columns = || self.columns.iter().zip(&shapes).zip(&encodings);
        // A chunk has differences in all columns that can have them, or in none.
        let mut with_delta =
            columns().filter(|((column, shape), _)| delta::applies(column.dtype, shape)).peekable();
        let delta_encoded = self.delta
            && with_delta.peek().is_some()
            && with_delta.all(|(_, encoding)| encoding.plain_codec().is_none());
        let described = columns().map(|((column, shape), _)| (column.dtype, shape));
        let plain_codec = |((column, _), encoding): ((&CutColumn<'_>, _), &Encoding)| {
            encoding.plain_codec().filter(|_| column.dtype != DType::String)
        };
        let plain: Option<SmallVec<[Codec; 8]>> = columns().map(plain_codec).collect();
        let (frame, columns) = if let Some(codecs) = plain {
            self.stored(described, &codecs)?
        } else {
            encode_payloads(self.key, described, |index, frame| {
                let (Some(column), Some(shape), Some(encoding)) =
                    (self.columns.get(index), shapes.get(index), encodings.get(index))
                else {
                    return Err(ChunkFault::NoSuchColumn { columns: self.columns.len() });
                };
                Ok(column.encode(shape, *encoding, delta_encoded, frame)?)
            })?
        };
        Ok(ChunkParts { key: self.key, range: self.range, columns, delta_encoded, frame, verbatim: false })
    }

    /// The columns as they are. Their sizes are known, so that they are copied once, to where they stay.
    fn stored<'s>(
        &self,
        described: impl Iterator<Item = (DType, &'s Shape)>,
        codecs: &[Codec],
    ) -> Result<Encoded, ChunkError> {
        let failed =
            |column| move |fault: ChunkFault| ChunkError { key: self.key, column: Some(column), fault };
        let mut heads: SmallVec<[_; 8]> = SmallVec::with_capacity(self.columns.len());
        let mut headers = SmallVec::with_capacity(self.columns.len());
        let mut size = 0_usize;
        let columns = self.columns.iter().zip(described).zip(codecs);
        for (index, ((column, (dtype, shape)), &codec)) in columns.enumerate() {
            let head = match codec {
                Codec::Raw => SmallVec::new(),
                _ => Codec::stored_head(column.num_bytes()).map_err(|error| failed(index)(error.into()))?,
            };
            let start = size;
            size += head.len() + column.num_bytes();
            let place = |at: usize| u32::try_from(at).ok().filter(|_| to_u64(size) <= MAX_CHUNK_BYTES);
            let span = place(start).zip(place(size));
            let (start, end) = span.ok_or_else(|| failed(index)(ChunkFault::Frame { size: to_u64(size) }))?;
            headers.push(ColumnHeader { dtype, codec, shape: shape.clone(), span: start..end });
            heads.push(head);
        }
        if let ([column], [Codec::Raw]) = (self.columns.as_slice(), codecs)
            && let Some(bytes) = column.whole()
        {
            // Memory that is filled piece by piece has to be cleared first.
            return Ok((bytes.into(), headers));
        }
        let mut frame = bytemuck::allocation::zeroed_arc_slice(size);
        let mut rest = Arc::get_mut(&mut frame).unwrap_or_default();
        for (head, column) in heads.iter().zip(&self.columns) {
            for part in std::iter::once(head.as_slice()).chain(column.parts()) {
                let (place, after) = rest.split_at_mut(part.len());
                place.copy_from_slice(part);
                rest = after;
            }
        }
        Ok((frame, headers))
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
    fn parts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let (given, buffered) = match self.data {
            CutData::Given(data) => (Some(data.bytes()), None),
            CutData::Buffered(buffer) => (None, Some(buffer.parts())),
        };
        given.into_iter().chain(buffered.into_iter().flatten())
    }

    /// The elements, if they lie in one piece.
    fn whole(&self) -> Option<&[u8]> {
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
