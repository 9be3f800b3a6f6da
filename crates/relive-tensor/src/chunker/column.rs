//! The rows of one column on their way to a chunk.

use std::ops::Range;

use super::buffer::Buffer;
use super::{AutoTuner, ChunkLength, ChunkStatistic, ChunkerError};
use crate::chunk::{ChunkError, ChunkParts, SequenceRange, encode_chunk, store_chunk};
use crate::codec::Codec;
use crate::limits::{MAX_CELL_BYTES, MAX_RANK};
use crate::{DType, Shape, Tensor, TensorError};

/// Where a cell (the value of a column at one step) will be found once its chunk is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellRef {
    /// Key of the chunk, known from its first cell on.
    pub chunk_key: u64,
    /// Row in the chunk.
    pub offset: u32,
}

/// Where consecutive cells will be found, and the chunk if they made it full.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedRows {
    /// Where the first of the cells is; the others follow it in the same chunk.
    pub first: CellRef,
    /// How many cells.
    pub rows: u32,
    /// The chunk, if it is full now.
    pub cut: Option<FinishedChunk>,
}

/// A chunk that was cut: batched rows of one column, not yet encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedChunk {
    /// Key of the chunk, the one in its cells' references.
    pub key: u64,
    /// Episode and steps covered; `sparse` if a step is missing between them.
    pub range: SequenceRange,
    /// The rows, `[N, *cell]`.
    pub tensor: Tensor,
    /// Whether to apply delta coding.
    pub delta: bool,
}

impl FinishedChunk {
    /// Encodes the chunk.
    ///
    /// # Errors
    /// As [`encode_chunk`].
    pub fn encode(&self, codec: Codec) -> Result<ChunkParts, ChunkError> {
        encode_chunk(self.key, self.range, std::slice::from_ref(&self.tensor), self.delta, codec)
    }

    /// Makes the chunk without an attempt to compress it.
    ///
    /// # Errors
    /// As [`store_chunk`].
    pub fn store(&self) -> Result<ChunkParts, ChunkError> {
        store_chunk(self.key, self.range, std::slice::from_ref(&self.tensor))
    }
}

/// Collects the cells of one column and cuts them into chunks. Type and shape are fixed by the first cell.
///
/// ```
/// use relive_tensor::{ChunkLength, ColumnChunker, Tensor};
/// let mut chunker = ColumnChunker::new(ChunkLength::constant(2, 4)?, false)?;
/// let mut keys = 100..;
/// let mut next_key = || keys.next().expect("endless");
///
/// let (first, cut) = chunker.append(&mut next_key, 1, 0, &Tensor::scalar(0.5_f32))?;
/// assert_eq!((first.chunk_key, first.offset, cut), (100, 0, None));
/// let (second, cut) = chunker.append(&mut next_key, 1, 1, &Tensor::scalar(1.5_f32))?;
/// assert_eq!((second.chunk_key, second.offset), (100, 1));
/// assert_eq!(cut.expect("two cells make a chunk").tensor.to_vec::<f32>()?, [0.5, 1.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnChunker {
    length: ChunkLength,
    tuner: Option<AutoTuner>,
    delta: bool,
    spec: Option<(DType, Shape)>,
    buffer: Option<Buffer>,
}

impl ColumnChunker {
    /// A chunker without cells. `delta` asks for delta coding of its chunks.
    ///
    /// # Errors
    /// [`ChunkerError`] if the numbers in `length` make no sense.
    pub fn new(length: ChunkLength, delta: bool) -> Result<Self, ChunkerError> {
        let length = length.validate()?;
        Ok(Self { length, tuner: tuner(&length), delta, spec: None, buffer: None })
    }

    /// Takes the cell of a step; returns where it will be found, and the chunk if that is full now. `key_source` is
    /// asked for a key when a chunk is begun.
    ///
    /// # Errors
    /// [`ChunkerError`] if dtype or shape differ from the first cell's, the episode changes while cells are buffered, the
    /// step does not come after the last buffered one, or the cell is over [`MAX_CELL_BYTES`]. The cell is then not taken.
    pub fn append(
        &mut self,
        key_source: &mut impl FnMut() -> u64,
        episode_id: u64,
        step: i32,
        cell: &Tensor,
    ) -> Result<(CellRef, Option<FinishedChunk>), ChunkerError> {
        self.check_cell(cell.dtype(), cell.shape().dims(), cell.size_bytes())?;
        if let Some(buffer) = &self.buffer {
            buffer.check_step(episode_id, step)?;
        }
        let max_rows = self.max_chunk_length();
        let buffer = self.buffer.get_or_insert_with(|| Buffer::new(key_source(), episode_id, step));
        let cell_ref = CellRef { chunk_key: buffer.key(), offset: buffer.rows() };
        buffer.push(step, 1, cell);
        let cut = if buffer.rows() >= max_rows || buffer.is_large() { self.flush() } else { None };
        Ok((cell_ref, cut))
    }

    /// Takes the cells of consecutive steps, `[N, *cell]`; the same as [`append`](Self::append) for each of them, but rows
    /// that share a chunk are taken together. No rows change nothing.
    ///
    /// ```
    /// use relive_tensor::{ChunkLength, ColumnChunker, Tensor};
    /// let mut chunker = ColumnChunker::new(ChunkLength::constant(2, 4)?, false)?;
    /// let mut keys = 100..;
    /// let mut next_key = || keys.next().expect("endless");
    ///
    /// let rows = Tensor::from_slice(&[0.5_f32, 1.5, 2.5], [3])?;
    /// let placed = chunker.append_rows(&mut next_key, 1, 0, &rows)?;
    /// assert_eq!(placed.iter().map(|placed| (placed.first.chunk_key, placed.rows)).collect::<Vec<_>>(), [(100, 2), (101, 1)]);
    /// assert!(placed[0].cut.is_some() && placed[1].cut.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`append`](Self::append); no cell is taken then.
    pub fn append_rows(
        &mut self,
        key_source: &mut impl FnMut() -> u64,
        episode_id: u64,
        first_step: i32,
        rows: &Tensor,
    ) -> Result<Vec<PlacedRows>, ChunkerError> {
        let count = rows.shape().rows().ok_or(ChunkerError::NoRows)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let row_bytes = rows.size_bytes() / u64::from(count);
        self.check_cell(rows.dtype(), rows.shape().cell_dims(), row_bytes)?;
        if let Some(buffer) = &self.buffer {
            buffer.check_step(episode_id, first_step)?;
        }
        let last = i32::try_from(count - 1).ok().and_then(|more| first_step.checked_add(more));
        last.ok_or(ChunkerError::Steps { first: first_step, rows: count })?;
        let mut placed = Vec::new();
        let mut from = 0;
        while from < count {
            let step = first_step.saturating_add(i32::try_from(from).unwrap_or(i32::MAX));
            let next = self.append_some(key_source, episode_id, step, rows, from..count, row_bytes);
            from += next.rows;
            placed.push(next);
        }
        Ok(placed)
    }

    /// Takes as many of the rows in `range`, at least one, as the chunk that is being filled has room for.
    fn append_some(
        &mut self,
        key_source: &mut impl FnMut() -> u64,
        episode_id: u64,
        step: i32,
        rows: &Tensor,
        range: Range<u32>,
        row_bytes: u64,
    ) -> PlacedRows {
        let max_rows = self.max_chunk_length();
        let buffer = self.buffer.get_or_insert_with(|| Buffer::new(key_source(), episode_id, step));
        let first = CellRef { chunk_key: buffer.key(), offset: buffer.rows() };
        let fitting = buffer.rows_until_large(row_bytes).min(max_rows.saturating_sub(buffer.rows())).max(1);
        let taken = fitting.min(range.end - range.start);
        let part = rows.rows(range.start..range.start + taken).expect("the range was cut to the rows");
        buffer.push(step, taken, &part);
        let cut = if buffer.rows() >= max_rows || buffer.is_large() { self.flush() } else { None };
        PlacedRows { first, rows: taken, cut }
    }

    /// Copies `rows` rows from `offset` on, `[rows, *cell]`, out of the chunk `key` while that is being filled. `None` if it
    /// is not, or has not that many rows.
    ///
    /// # Errors
    /// [`TensorError`] never occurs for rows that were taken; it is what making a tensor may say.
    pub fn pending_rows(&self, key: u64, offset: u32, rows: u32) -> Option<Result<Tensor, TensorError>> {
        let (dtype, cell) = self.spec()?;
        let buffer = self.buffer.as_ref().filter(|buffer| buffer.key() == key)?;
        let end = offset.checked_add(rows).filter(|end| *end <= buffer.rows())?;
        Some(buffer.copy(dtype, cell, offset..end))
    }

    /// Cuts a chunk of the buffered cells, `None` if there are none.
    pub fn flush(&mut self) -> Option<FinishedChunk> {
        let (dtype, shape) = self.spec.as_ref()?;
        let buffer = self.buffer.take()?;
        let range = buffer.range();
        Some(FinishedChunk {
            key: buffer.key(),
            range,
            tensor: buffer.finish(*dtype, shape),
            delta: self.delta,
        })
    }

    /// The length at which chunks are cut now.
    #[must_use]
    pub fn max_chunk_length(&self) -> u32 {
        match (&self.tuner, self.length) {
            (Some(tuner), _) => tuner.max_chunk_length(),
            (None, ChunkLength::Constant { max_chunk_length, .. }) => max_chunk_length,
            (None, ChunkLength::AutoTuned { .. }) => 1,
        }
    }

    /// Newest cells of the column that stay referencable.
    #[must_use]
    pub fn num_keep_alive_refs(&self) -> u32 {
        self.length.num_keep_alive_refs()
    }

    /// Number of cells that wait for their chunk to be cut.
    #[must_use]
    pub fn buffered_rows(&self) -> u32 {
        self.buffer.as_ref().map_or(0, Buffer::rows)
    }

    /// Key of the chunk that is being filled.
    #[must_use]
    pub fn pending_key(&self) -> Option<u64> {
        self.buffer.as_ref().map(Buffer::key)
    }

    /// Type and shape of the cells, once there was one.
    #[must_use]
    pub fn spec(&self) -> Option<(DType, &Shape)> {
        self.spec.as_ref().map(|(dtype, shape)| (*dtype, shape))
    }

    /// Takes note of an item that is about to be sent, see [`AutoTuner::record_item`]. Without effect under a constant length.
    pub fn record_item(&mut self, cells: u32, chunks: &[ChunkStatistic]) {
        if let Some(tuner) = &mut self.tuner {
            tuner.record_item(cells, chunks);
        }
    }

    /// Changes how long chunks may get.
    ///
    /// # Errors
    /// [`ChunkerError::Buffered`] while cells are buffered, or if the numbers in `length` make no sense.
    pub fn set_length(&mut self, length: ChunkLength) -> Result<(), ChunkerError> {
        let length = length.validate()?;
        if let Some(buffer) = &self.buffer {
            return Err(ChunkerError::Buffered { rows: buffer.rows() });
        }
        self.tuner = tuner(&length);
        self.length = length;
        Ok(())
    }

    /// Checks type, shape and size of a cell; the first one sets type and shape.
    fn check_cell(&mut self, dtype: DType, dims: &[u32], size: u64) -> Result<(), ChunkerError> {
        let rank = dims.len();
        if rank >= MAX_RANK {
            return Err(ChunkerError::Rank { rank });
        }
        if size > MAX_CELL_BYTES {
            return Err(ChunkerError::CellSize { size });
        }
        match &self.spec {
            None => self.spec = Some((dtype, Shape::from(dims))),
            Some((known, shape)) if *known == dtype && shape.dims() == dims => {}
            Some((known, shape)) => {
                return Err(ChunkerError::Cell {
                    dtype: *known,
                    shape: shape.clone(),
                    actual_dtype: dtype,
                    actual_shape: Shape::from(dims),
                });
            }
        }
        Ok(())
    }
}

fn tuner(length: &ChunkLength) -> Option<AutoTuner> {
    match *length {
        ChunkLength::Constant { .. } => None,
        ChunkLength::AutoTuned { num_keep_alive_refs, throughput_weight } => {
            Some(AutoTuner::new(num_keep_alive_refs, throughput_weight))
        }
    }
}
