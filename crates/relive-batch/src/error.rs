//! Why samples make no batch.

use relive_tensor::ChunkFault;

/// Why samples make no batch.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// Their columns differ other than in the number of rows.
    #[error(
        "the samples of a batch differ{place}: item {key} has {got}, those before have {expected}",
        place = .column.map_or_else(String::new, |column| format!(" in column {column}"))
    )]
    Differ {
        /// The item that differs from those before.
        key: u64,
        /// The column, if it is not their number.
        column: Option<usize>,
        /// What those before have.
        expected: String,
        /// What it has.
        got: String,
    },
    /// A column with more bytes than memory has addresses.
    #[error("column {column} of the batch does not fit the address space")]
    TooLarge {
        /// The column.
        column: usize,
    },
    /// The destination has another size than the column.
    #[error("the destination of column {column} must have {expected} bytes, it has {got}")]
    Destination {
        /// The column.
        column: usize,
        /// Bytes of the column.
        expected: usize,
        /// Bytes of the destination.
        got: usize,
    },
    /// Data that cannot be decoded.
    #[error("a sample cannot be decoded: {0}")]
    Damaged(ChunkFault),
    /// Data that is not what its description says.
    #[error("a sample cannot be read: {0}")]
    Unreadable(String),
    /// There is not as much memory.
    #[error("there is no memory for a batch of {bytes} bytes")]
    OutOfMemory {
        /// Bytes that were wanted.
        bytes: usize,
    },
}
