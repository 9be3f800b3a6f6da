//! The error for samples that cannot form a batch.

use relive_tensor::ChunkFault;

/// The reason why samples cannot form a batch.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The samples' columns differ in more than the number of rows.
    #[error(
        "the samples of a batch differ{place}: item {key} has {got}, but those before it have {expected}",
        place = .column.map_or_else(String::new, |column| format!(" in column {column}"))
    )]
    Differ {
        /// The item that differs from the earlier ones.
        key: u64,
        /// The column, or `None` if the number of columns differs.
        column: Option<usize>,
        /// The property of the earlier items.
        expected: String,
        /// The property of this item.
        got: String,
    },
    /// A column does not fit in the address space.
    #[error("column {column} of the batch exceeds the address space")]
    TooLarge {
        /// The column.
        column: usize,
    },
    /// The destination and the column differ in size.
    #[error("the destination of column {column} must have {expected} bytes, got {got}")]
    Destination {
        /// The column.
        column: usize,
        /// The number of bytes in the column.
        expected: usize,
        /// The size of the destination in bytes.
        got: usize,
    },
    /// Data cannot be decoded.
    #[error("cannot decode a sample: {0}")]
    Damaged(ChunkFault),
    /// Data does not match its description.
    #[error("cannot read a sample: {0}")]
    Unreadable(String),
    /// Memory is insufficient.
    #[error("out of memory for a batch of {bytes} bytes")]
    OutOfMemory {
        /// Requested bytes.
        bytes: usize,
    },
}
