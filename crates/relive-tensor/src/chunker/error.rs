//! The errors of chunkers.

use crate::dtype::DType;
use crate::limits::{MAX_CELL_BYTES, MAX_RANK};
use crate::shape::Shape;

/// The reason why a chunker refuses a cell or a configuration. The chunker has not changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the fields")]
pub enum ChunkerError {
    /// `num_keep_alive_refs` is 0.
    #[error("num_keep_alive_refs must be at least 1, got {num_keep_alive_refs}")]
    KeepAlive { num_keep_alive_refs: u32 },
    /// A chunk length of 0, or above `num_keep_alive_refs`.
    #[error(
        "max_chunk_length must be in 1..={num_keep_alive_refs} (num_keep_alive_refs), got {max_chunk_length}"
    )]
    Length { max_chunk_length: u32, num_keep_alive_refs: u32 },
    /// A weight that is negative, infinite or NaN.
    #[error("throughput_weight must be finite and not negative, got {throughput_weight}")]
    Weight { throughput_weight: f64 },
    /// A cell with a type or shape that differs from the column's first cell.
    #[error("the column holds {dtype}{shape}, got {actual_dtype}{actual_shape}")]
    Cell { dtype: DType, shape: Shape, actual_dtype: DType, actual_shape: Shape },
    /// A cell with so many dimensions that a leading one cannot be added.
    #[error(
        "a cell has {rank} dimensions; with the leading dimension for steps, that exceeds the limit of {MAX_RANK}"
    )]
    Rank { rank: usize },
    /// A cell that exceeds [`MAX_CELL_BYTES`].
    #[error("a cell has {size} bytes; the limit is {MAX_CELL_BYTES}")]
    CellSize { size: u64 },
    /// A cell belongs to another episode while cells from the previous episode are buffered.
    #[error(
        "got a step of episode {given}, but episode {buffered} still has buffered steps; flush at the end of an episode"
    )]
    Episode { buffered: u64, given: u64 },
    /// A step that is not after the last buffered step.
    #[error("step {given} is not after step {last}; a column has one cell per step")]
    Step { last: i32, given: i32 },
    /// An unknown column.
    #[error("there is no column number {column}; there are {columns}")]
    NoSuchColumn { column: usize, columns: usize },
    /// The columns have different numbers of rows.
    #[error("a column has {got} rows, but the columns before it have {expected}")]
    Rows { expected: u32, got: u32 },
    /// Steps that cannot be numbered.
    #[error("{rows} steps after step {first} exceed the range of step numbers; end the episode")]
    Steps { first: i32, rows: u32 },
}
