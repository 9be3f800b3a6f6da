//! Slices: how columns refer to rows of chunks.

use std::sync::Arc;

use crate::chunk::Chunk;

/// Consecutive rows of one tensor of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The chunk, as a position in [`Trajectory::chunks`](super::Trajectory::chunks).
    pub chunk: u32,
    /// The first row.
    pub offset: u32,
    /// The number of rows, at least 1.
    pub length: u32,
    /// The index of the tensor in the chunk.
    pub index: u32,
}

/// The slices of one column in the list of all slices: they end at `slices_end` and start where the previous column
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnSpan {
    /// The exclusive end of the column's slices.
    pub slices_end: u32,
    /// Whether to drop the leading dimension, which is then 1.
    pub squeeze: bool,
}

/// A column that is a single slice.
#[derive(Clone, Copy, Debug)]
pub struct OnlySlice<'a> {
    /// The chunk.
    pub chunk: &'a Arc<Chunk>,
    /// The chunk's position in [`Trajectory::chunks`](super::Trajectory::chunks).
    pub chunk_number: u32,
    /// The index of the tensor in the chunk.
    pub index: usize,
    /// The first row.
    pub offset: u32,
    /// The number of rows.
    pub length: u32,
    /// Whether to drop the leading dimension, which is then 1.
    pub squeeze: bool,
}
