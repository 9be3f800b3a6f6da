//! Errors of messages.

use relive_table::{ConfigError, ErrorKind};
use relive_tensor::{ChunkError, TensorError, TrajectoryError};

use crate::reader::MalformedMessage;

/// The reason why a message is invalid. Every variant contains the location and the fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes of a chunk are not an encoded `ChunkData`.
    #[error("chunk {key}: not a ChunkData message: {reason}")]
    MalformedChunk {
        /// The chunk's key if it was parsed, and 0 otherwise.
        key: u64,
        /// The parser's error.
        reason: String,
    },
    /// A column of a chunk has a data type that chunks do not support.
    #[error("chunk {key}, column {column}: data type number {number} cannot be stored in a chunk")]
    UnsupportedDtype {
        /// The chunk.
        key: u64,
        /// The position of the tensor in the chunk.
        column: usize,
        /// TensorFlow's `DataType` number.
        number: i64,
    },
    /// A column of a chunk has a codec that this version does not support.
    #[error("chunk {key}, column {column}: this version does not support codec number {number}")]
    UnknownCodec {
        /// The chunk.
        key: u64,
        /// The position of the tensor in the chunk.
        column: usize,
        /// The number that was sent.
        number: u64,
    },
    /// A column of a chunk has a shape that is unknown, negative or too large.
    #[error("chunk {key}, column {column}: dimension {size} must be between 0 and {max}", max = u32::MAX)]
    Dimension {
        /// The chunk.
        key: u64,
        /// The position of the tensor in the chunk.
        column: usize,
        /// The dimension that was sent.
        size: i64,
    },
    /// A part of the status of a checkpoint is missing or unknown.
    #[error("the checkpoint has {} {what} that this version does not support", if *what == "outcome" { "an" } else { "a" })]
    CheckpointStatus {
        /// The part.
        what: &'static str,
    },
    /// The chunk's columns and its bytes contradict each other.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// An item refers to a chunk that was not sent on this stream or is no longer kept.
    #[error(
        "item {item} refers to chunk {chunk}, which this stream does not hold; send the chunk in this request \
         or earlier, and list it in keep_chunk_keys until the last item that needs it"
    )]
    UnknownChunk {
        /// The item.
        item: u64,
        /// The missing chunk.
        chunk: u64,
    },
    /// An item that has no trajectory, or has a form that was dropped in January 2021.
    #[error(
        "item {item} has no trajectory: every item needs at least one column with at least one chunk slice"
    )]
    NoTrajectory {
        /// The item.
        item: u64,
    },
    /// A run of items with columns that differ in length, or that refer to unnamed chunks.
    #[error("items for table `{table}`: {reason}")]
    ItemRun {
        /// The name of the table.
        table: String,
        /// The contradiction.
        reason: String,
    },
    /// A slice with a negative offset, length or index.
    #[error("item {item}, column {column}: slice of chunk {chunk} has a negative {what} ({value})")]
    NegativeSlice {
        /// The item.
        item: u64,
        /// The position of the column in the trajectory.
        column: usize,
        /// The chunk.
        chunk: u64,
        /// `offset`, `length` or `index`.
        what: &'static str,
        /// The value that was sent.
        value: i32,
    },
    /// The item has more columns or slices than a server accepts.
    #[error("item {item} has {count} {what}; the limit is {limit}")]
    TooMany {
        /// The item.
        item: u64,
        /// `columns` or `chunk slices`.
        what: &'static str,
        /// The number that was sent.
        count: usize,
        /// The bound.
        limit: usize,
    },
    /// The item's columns do not match their chunks.
    #[error("item {item}: {source}")]
    Trajectory {
        /// The item.
        item: u64,
        /// The mismatch.
        source: TrajectoryError,
    },
    /// An invalid item in a checkpoint.
    #[error("item {item}: {reason}")]
    StoredItem {
        /// The item.
        item: u64,
        /// The fault of the item.
        reason: String,
    },
    /// Bytes that are not a message of the expected kind.
    #[error("not a message of this kind: {reason}")]
    Record {
        /// The parser's error.
        reason: String,
    },
    /// A signature that is not a nest of tensor specs.
    #[error("signature at `{path}`: {reason}")]
    Signature {
        /// The path into the nested structure, with its parts joined by `/`.
        path: String,
        /// The fault that was found.
        reason: String,
    },
    /// An invalid structure of columns.
    #[error("structure of columns at `{path}`: {reason}")]
    Structure {
        /// The path into the nested structure, with its parts joined by `/`.
        path: String,
        /// The fault that was found.
        reason: String,
    },
    /// A table description that lacks a part.
    #[error("table `{table}`: {reason}")]
    Table {
        /// The name of the table.
        table: String,
        /// The missing or invalid part.
        reason: String,
    },
    /// A table description with values that are out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A tensor with bytes that contradict its shape.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A request that describes too much or cannot be parsed.
    #[error("request: {reason}")]
    Request {
        /// The part that exceeds a limit, or the fault.
        reason: String,
    },
    /// A stream of sample entries that violates the protocol.
    #[error("sample stream: {0}")]
    SampleStream(&'static str),
    /// The head of a batch is inconsistent or does not match its data.
    #[error("batch with {reason}")]
    Batch {
        /// The mismatch.
        reason: String,
    },
    /// A message with samples, or one of its samples, cannot be parsed.
    #[error("sample of item {item}: {reason}")]
    MalformedSample {
        /// The item's key if it was parsed, and 0 otherwise.
        item: u64,
        /// The parser's error.
        reason: String,
    },
}

impl WireError {
    /// Returns the kind of the error that the sender of the message receives.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownChunk { .. } => ErrorKind::Internal,
            Self::Request { .. } => ErrorKind::ResourceExhausted,
            _ => ErrorKind::InvalidArgument,
        }
    }

    pub(crate) fn malformed_sample(item: u64, error: MalformedMessage) -> Self {
        Self::MalformedSample { item, reason: error.to_string() }
    }

    pub(crate) fn malformed(key: u64, error: MalformedMessage) -> Self {
        Self::MalformedChunk { key, reason: error.to_string() }
    }
}
