//! The error value for a refused step.

use relive_connection::{Error, ErrorKind};
use relive_tensor::limits::{MAX_CELL_BYTES, MAX_RANK};
use relive_tensor::{DType, Shape};
use thiserror::Error;

/// The refused column of a step, and the reason. This is the [`source`](std::error::Error::source) of the errors that
/// `append` and similar methods return.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("column {column} (path {path:?}) {fault}")]
#[non_exhaustive]
pub struct AppendMismatch {
    /// The number of the column, in the order of first appearance; in a [`StructuredWriter`](crate::StructuredWriter),
    /// the number of the leaf in the flattened step.
    pub column: usize,
    /// The path of the column in the step, joined by `/`.
    pub path: String,
    /// The fault.
    pub fault: AppendFault,
}

/// The reason why a column's value was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AppendFault {
    /// The element type differs from the element type of the first value.
    #[error(
        "got dtype {got}, but expected {expected} as in its first value; every step of a column must have the same dtype and shape"
    )]
    DType {
        /// The given type.
        got: DType,
        /// The element type of the first value.
        expected: DType,
    },
    /// A shape that differs from the shape of the first value.
    #[error(
        "got shape {got}, but expected {expected} as in its first value; every step of a column must have the same dtype and shape"
    )]
    Shape {
        /// The shape of the given value of one step.
        got: Shape,
        /// The shape of the first value.
        expected: Shape,
    },
    /// A second value for the same step.
    #[error("was already set in this step")]
    SetTwice,
    /// More dimensions than a chunk can hold.
    #[error("has {rank} dimensions, but must have fewer than {MAX_RANK}")]
    Rank {
        /// The number of dimensions of the value.
        rank: usize,
    },
    /// More bytes than a chunk can hold.
    #[error("has {size_bytes} bytes in one step; the limit is {MAX_CELL_BYTES}")]
    Size {
        /// The number of bytes in the value.
        size_bytes: u64,
    },
    /// A sequence without a leading dimension.
    #[error("is a scalar, but the values of a sequence must have a leading dimension, the steps")]
    NoSteps,
    /// A sequence whose length differs from the lengths of the preceding columns.
    #[error(
        "has {got} steps, but other columns have {expected}; all columns of a sequence must have the same length"
    )]
    Steps {
        /// The number of steps of this column.
        got: u32,
        /// The number of steps of the first column.
        expected: u32,
    },
}

impl From<AppendMismatch> for Error {
    fn from(mismatch: AppendMismatch) -> Error {
        Error::with_source(ErrorKind::InvalidArgument, mismatch.to_string(), mismatch)
    }
}
