//! Cuts the steps of columns into chunks, for writers.

mod buffer;
mod columns;
mod cut;
mod cut_column;
mod error;
mod length;
mod open;
mod pace;
mod plain;
mod rows;
mod tuner;

pub use columns::{ChunkSink, Chunker, PlacedRows};
pub use cut::Cut;
pub use cut_column::{CutColumn, Encoding};
pub use error::ChunkerError;
pub use length::ChunkLength;
pub use plain::{PlainColumn, PlainCut};
pub use rows::Rows;
pub use tuner::{AutoTuner, ChunkStatistic};
