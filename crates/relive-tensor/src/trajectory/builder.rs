//! Step-by-step construction of a trajectory.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::pattern::Patterns;
use super::slice::{ColumnSpan, Slice};
use super::stored::{Columns, Trajectory};
use super::{TrajectoryError, validate};
use crate::chunk::Chunk;

/// The number of chunks above which a chunk's number is looked up by the hash of its key. For fewer chunks, a linear
/// search is faster.
const LINEAR_SEARCH_CHUNKS: usize = 64;

/// Collects chunks, columns and slices of a [`Trajectory`], and validates them at the end. A builder can be reused: its
/// trajectories with the same slicing pattern share that pattern.
///
/// ```
/// # use std::sync::Arc;
/// # use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};
/// # let rows = Tensor::from_slice(&[1_i32, 2, 3], [3])?;
/// # let range = SequenceRange { episode_id: 1, start: 0, end: 2, sparse: false };
/// # let chunk = Arc::new(Chunk::new(encode_chunk(1, range, &[rows], false, Codec::Snappy)?)?);
/// let mut builder = TrajectoryBuilder::new();
/// let chunk = builder.chunk(chunk);
/// builder.begin_column(false);
/// builder.slice(Slice { chunk, offset: 1, length: 2, index: 0 });
/// builder.begin_column(true);
/// builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
/// let columns = builder.build()?.decode()?;
/// assert_eq!(columns[0], Tensor::from_slice(&[2, 3], [2])?);
/// assert_eq!(columns[1], Tensor::scalar(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct TrajectoryBuilder {
    // The parts added so far, not validated yet.
    chunks: SmallVec<[Arc<Chunk>; 2]>,
    columns: SmallVec<[ColumnSpan; 8]>,
    slices: SmallVec<[Slice; 8]>,
    /// The keys of the chunks in order, in one array so that a search does not access the chunks.
    keys: SmallVec<[u64; 16]>,
    /// The numbers of the chunks by key, once there are many.
    numbers: Option<HashMap<u64, u32>>,
    patterns: Patterns,
}

impl TrajectoryBuilder {
    /// Creates a builder without chunks or columns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chunk and returns its number for [`Slice::chunk`]. A repeated key keeps its number and its first chunk.
    pub fn chunk(&mut self, chunk: Arc<Chunk>) -> u32 {
        if let Some(number) = self.number_of(chunk.key()) {
            return number;
        }
        let number = count(self.chunks.len());
        if let Some(numbers) = &mut self.numbers {
            numbers.insert(chunk.key(), number);
        }
        self.keys.push(chunk.key());
        self.chunks.push(chunk);
        if self.numbers.is_none() && self.keys.len() > LINEAR_SEARCH_CHUNKS {
            self.numbers = Some(self.keys.iter().copied().zip(0..).collect());
        }
        number
    }

    /// Starts the next column, to which the following slices belong.
    pub fn begin_column(&mut self, squeeze: bool) {
        let slices_end = count(self.slices.len());
        self.columns.push(ColumnSpan { slices_end, squeeze });
    }

    /// Adds a slice to the current column. Without a preceding [`begin_column`](Self::begin_column), it starts a column
    /// that is not squeezed.
    pub fn slice(&mut self, slice: Slice) {
        if self.columns.is_empty() {
            self.begin_column(false);
        }
        self.slices.push(slice);
        if let Some(column) = self.columns.last_mut() {
            column.slices_end = count(self.slices.len());
        }
    }

    /// Builds the trajectory if every column has rows, every slice lies inside its chunk, the slices of a column agree
    /// in type and row shape, and squeezed columns have exactly one row. All trajectories are built by this function.
    /// Afterwards, the builder is empty.
    ///
    /// # Errors
    /// [`TrajectoryError`] with the column, the chunk, the requested rows and the available rows.
    pub fn build(&mut self) -> Result<Trajectory, TrajectoryError> {
        let draft = Columns { chunks: &self.chunks, first: 0, spans: &self.columns, slices: &self.slices };
        let checked = validate::trajectory(draft);
        let first = self.slices.iter().find(|slice| slice.chunk == 0).map_or(0, |slice| slice.offset);
        let pattern = checked.map(|()| self.patterns.of(&self.columns, &self.slices, first));
        // Items are numerous and long-lived, so they use no more memory than needed.
        let chunks = self.chunks.drain(..).collect();
        self.clear();
        Ok(Trajectory { chunks, first, pattern: pattern? })
    }

    /// Drops the parts that were added since the last trajectory.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.columns.clear();
        self.slices.clear();
        self.keys.clear();
        self.numbers = None;
    }

    fn number_of(&self, key: u64) -> Option<u32> {
        match &self.numbers {
            Some(numbers) => numbers.get(&key).copied(),
            // Searches from the end, because adjacent slices are mostly in the same chunk.
            None => self.keys.iter().rposition(|&known| known == key).map(count),
        }
    }
}

/// Converts a length to 32 bits. Longer lists are refused by the validation.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
