//! Cutting the steps of a column into chunks, for writers.

mod buffer;
mod column;
mod error;
mod length;
mod tuner;

pub use column::{CellRef, ColumnChunker, FinishedChunk, PlacedRows};
pub use error::ChunkerError;
pub use length::ChunkLength;
pub use tuner::{AutoTuner, ChunkStatistic};
