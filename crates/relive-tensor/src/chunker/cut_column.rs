//! The rows of one column of a full chunk.

use bytes::Bytes;

use super::buffer::Buffer;
use super::rows::RowData;
use crate::chunk::encode_bytes;
use crate::codec::{Codec, CodecError, delta, strings};
use crate::dtype::DType;
use crate::shape::Shape;
use crate::tensor::{Tensor, TensorError};

/// The rows of one column of a [`Cut`](super::Cut).
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

/// How the payload of a column is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// With this codec; data that the codec does not shrink enough is stored uncompressed.
    With(Codec),
    /// Uncompressed, in a form that decoders of [`Codec::Snappy`] support.
    Stored,
    /// Uncompressed and without a header, so that a column in one piece is copied in a single operation.
    Bare,
}

impl Encoding {
    /// Returns the codec of uncompressed data.
    pub(super) fn plain_codec(self) -> Option<Codec> {
        match self {
            Self::With(_) => None,
            Self::Stored => Some(Codec::Snappy),
            Self::Bare => Some(Codec::Raw),
        }
    }
}

impl CutColumn<'_> {
    /// Returns the number of the column in its chunker.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// Returns the number of rows, at least one.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the number of bytes in the elements, or 0 for strings.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        match self.data {
            CutData::Given(data) => data.bytes().len(),
            CutData::Buffered(buffer) => buffer.num_bytes(),
        }
    }

    /// Returns the rows as a tensor, `[rows, *cell]`.
    ///
    /// # Errors
    /// [`TensorError`] from the construction of the tensor, which never occurs for appended rows.
    pub fn to_tensor(&self) -> Result<Tensor, TensorError> {
        let shape = Shape::batched(self.rows, self.cell_dims);
        if self.dtype == DType::String {
            return Tensor::from_strings(self.strings().iter().cloned(), shape);
        }
        Tensor::new(self.dtype, shape, self.joined().into())
    }

    /// Appends the payload, and returns its codec.
    pub(super) fn encode(
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

    /// Iterates over the pieces of the elements. Strings have none.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let (given, buffered) = match self.data {
            CutData::Given(data) => (Some(data.bytes()), None),
            CutData::Buffered(buffer) => (None, Some(buffer.parts())),
        };
        given.into_iter().chain(buffered.into_iter().flatten())
    }

    /// Returns the elements if they are in one piece.
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
