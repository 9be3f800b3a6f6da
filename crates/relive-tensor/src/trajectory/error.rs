//! The errors of building and decoding trajectories.

use crate::chunk::ChunkError;
use crate::dtype::DType;
use crate::limits::MAX_TRAJECTORY_BYTES;
use crate::shape::Shape;
use crate::tensor::TensorError;

/// The reason why a trajectory is refused or cannot be decoded. Columns are numbered from 0 in flattening order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the fields")]
pub enum TrajectoryError {
    /// There are no columns.
    #[error("the trajectory has no columns")]
    NoColumns,
    /// A column without slices.
    #[error("column {column} has no slices; every column needs at least one row")]
    EmptyColumn { column: usize },
    /// A slice with an unknown chunk number.
    #[error("column {column} refers to chunk number {chunk} of {chunks}")]
    UnknownChunk { column: usize, chunk: u32, chunks: usize },
    /// A slice of a tensor that its chunk does not have.
    #[error("column {column} refers to tensor {index} of chunk {chunk_key}, which has {tensors}")]
    Index { column: usize, chunk_key: u64, index: i64, tensors: usize },
    /// A slice that is empty, negative, or outside the rows of its chunk.
    #[error(
        "column {column} needs {length} rows from row {offset} of chunk {chunk_key}, which has {rows} rows"
    )]
    Rows { column: usize, chunk_key: u64, offset: i64, length: i64, rows: u32 },
    /// Slices of one column differ in type or in the shape of a row.
    #[error(
        "column {column} mixes {first_dtype}{first_shape} with {dtype}{shape} (shape of a row) of chunk {chunk_key}"
    )]
    Mixed {
        column: usize,
        chunk_key: u64,
        first_dtype: DType,
        first_shape: Shape,
        dtype: DType,
        shape: Shape,
    },
    /// A squeezed column does not have exactly one row.
    #[error("column {column} is squeezed but has {rows} rows; only one row can be squeezed")]
    Squeeze { column: usize, rows: u64 },
    /// More slices or columns than 32 bits can count.
    #[error("the trajectory has too many slices")]
    TooManySlices,
    /// With this column, the trajectory exceeds [`MAX_TRAJECTORY_BYTES`] once decoded, or the column has more rows than
    /// 32 bits can count.
    #[error(
        "column {column} has {rows} rows; the limits are 2^32 rows and {MAX_TRAJECTORY_BYTES} bytes for all columns"
    )]
    TooLarge { column: usize, rows: u64 },
    /// The trajectory has no such column.
    #[error("there is no column {column}; the trajectory has {columns}")]
    NoSuchColumn { column: usize, columns: usize },
    /// A chunk cannot be decoded.
    #[error("column {column}: {source}")]
    Chunk { column: usize, source: ChunkError },
    /// Decoded slices cannot be joined.
    #[error("column {column}: {source}")]
    Tensor { column: usize, source: TensorError },
}
