//! The errors of validating and decoding chunks.

use crate::codec::{Codec, CodecError};
use crate::dtype::DType;
use crate::limits::{MAX_CHUNK_BYTES, MAX_CHUNK_COLUMNS, MAX_RANK};
use crate::shape::Shape;
use crate::tensor::TensorError;

/// The reason why a chunk is refused or one of its columns cannot be decoded: the chunk, the column and the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chunk {key}{}: {fault}", .column.map(|c| format!(", column {c}")).unwrap_or_default())]
pub struct ChunkError {
    /// The key of the chunk.
    pub key: u64,
    /// The column, or `None` for the chunk as a whole.
    pub column: Option<usize>,
    /// The fault.
    pub fault: ChunkFault,
}

/// A fault of a chunk or of one of its columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the fields")]
pub enum ChunkFault {
    /// There are no columns.
    #[error("it has no columns")]
    NoColumns,
    /// More columns than [`MAX_CHUNK_COLUMNS`].
    #[error("it has {columns} columns; the limit is {MAX_CHUNK_COLUMNS}")]
    TooManyColumns { columns: usize },
    /// The frame is longer than [`MAX_CHUNK_BYTES`].
    #[error("its encoded size is {size} bytes; the limit is {MAX_CHUNK_BYTES}; use shorter chunks")]
    Frame { size: u64 },
    /// The decoded content is longer than [`MAX_CHUNK_BYTES`], or its size cannot be represented.
    #[error("its decoded size, as {dtype}{shape}, exceeds {MAX_CHUNK_BYTES} bytes; use shorter chunks")]
    Content { dtype: DType, shape: Shape },
    /// The payload is not inside the frame.
    #[error("its payload {start}..{end} is outside of the frame of {frame} bytes")]
    Span { start: u32, end: u32, frame: usize },
    /// The tensor has no leading dimension.
    #[error("it is a scalar; tensors of a chunk must have a leading dimension, the steps")]
    Scalar,
    /// The tensor has more dimensions than [`MAX_RANK`].
    #[error("it has {rank} dimensions; the limit is {MAX_RANK}")]
    Rank { rank: usize },
    /// The strings are compressed, which no reader supports.
    #[error("strings are never compressed, but the codec is {codec}")]
    CompressedStrings { codec: Codec },
    /// The chunk has no such column.
    #[error("there is no such column; the chunk has {columns}")]
    NoSuchColumn { columns: usize },
    /// The destination does not have the size of the decoded column.
    #[error("it decodes to {expected} bytes, but the destination has {actual} (strings have no fixed size)")]
    Destination { expected: u64, actual: u64 },
    /// The payload is broken.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The decoded bytes are not a valid tensor of the column's type.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
