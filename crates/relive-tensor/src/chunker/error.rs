//! Why a chunker refuses a cell or a configuration.

use crate::dtype::DType;
use crate::limits::{MAX_CELL_BYTES, MAX_RANK};
use crate::shape::Shape;

/// Why a chunker refuses a cell or a configuration. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what the messages say about them")]
pub enum ChunkerError {
    /// Fewer than one cell would stay referencable.
    #[error("num_keep_alive_refs must be at least 1, got {num_keep_alive_refs}")]
    KeepAlive { num_keep_alive_refs: u32 },
    /// A chunk would be empty, or hold more cells than stay referencable.
    #[error(
        "max_chunk_length must lie in 1..={num_keep_alive_refs} (num_keep_alive_refs), got {max_chunk_length}"
    )]
    Length { max_chunk_length: u32, num_keep_alive_refs: u32 },
    /// A weight that is negative, infinite or not a number.
    #[error("throughput_weight must be finite and not negative, got {throughput_weight}")]
    Weight { throughput_weight: f64 },
    /// A cell of another type or shape than the first one of the column.
    #[error("the column holds {dtype}{shape}, got {actual_dtype}{actual_shape}")]
    Cell { dtype: DType, shape: Shape, actual_dtype: DType, actual_shape: Shape },
    /// A cell with no room for the leading dimension.
    #[error("a cell has {rank} dimensions; with the steps in front that is over the limit of {MAX_RANK}")]
    Rank { rank: usize },
    /// A cell over [`MAX_CELL_BYTES`].
    #[error("a cell has {size} bytes, the limit is {MAX_CELL_BYTES}")]
    CellSize { size: u64 },
    /// A cell of another episode while cells of the last one wait for their chunk.
    #[error(
        "episode {buffered} has buffered steps, got one of episode {given}; flush at the end of an episode"
    )]
    Episode { buffered: u64, given: u64 },
    /// A step that does not come after the last one.
    #[error("step {given} does not come after step {last}; a column takes one cell per step")]
    Step { last: i32, given: i32 },
    /// A column that the chunker does not have.
    #[error("there is no column number {column}, there are {columns}")]
    NoSuchColumn { column: usize, columns: usize },
    /// Columns with rows for different numbers of steps.
    #[error("a column has {got} rows, those before have {expected}")]
    Rows { expected: u32, got: u32 },
    /// Steps that cannot be numbered.
    #[error("{rows} steps from step {first} on cannot be numbered; end the episode")]
    Steps { first: i32, rows: u32 },
}
