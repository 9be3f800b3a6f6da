//! The rows of one column on their way to a chunk.

use bytes::Bytes;

use super::{AutoTuner, ChunkLength, ChunkStatistic, ChunkerError};
use crate::chunk::{ChunkError, ChunkParts, SequenceRange, encode_chunk};
use crate::codec::Codec;
use crate::limits::{CHUNKER_CUT_BYTES, MAX_CELL_BYTES, MAX_RANK};
use crate::{DType, Shape, Tensor};

/// Where a cell (the value of a column at one step) will be found once its chunk is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellRef {
    /// Key of the chunk, known from its first cell on.
    pub chunk_key: u64,
    /// Row in the chunk.
    pub offset: u32,
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

/// The cells of the chunk that is being filled.
#[derive(Clone, Debug)]
struct Buffer {
    key: u64,
    range: SequenceRange,
    rows: u32,
    size_bytes: u64,
    bytes: Vec<u8>,
    strings: Vec<Bytes>,
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
        self.check_cell(cell)?;
        if let Some(buffer) = &self.buffer {
            buffer.check_step(episode_id, step)?;
        }
        let max_rows = self.max_chunk_length();
        let buffer = self.buffer.get_or_insert_with(|| Buffer::new(key_source(), episode_id, step));
        let cell_ref = CellRef { chunk_key: buffer.key, offset: buffer.rows };
        buffer.push(step, cell);
        let full = buffer.rows >= max_rows || buffer.size_bytes >= CHUNKER_CUT_BYTES;
        let cut = if full { self.flush() } else { None };
        Ok((cell_ref, cut))
    }

    /// Cuts a chunk of the buffered cells, `None` if there are none.
    pub fn flush(&mut self) -> Option<FinishedChunk> {
        let (dtype, shape) = self.spec.as_ref()?;
        let buffer = self.buffer.take()?;
        Some(buffer.finish(*dtype, shape, self.delta))
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
        self.buffer.as_ref().map_or(0, |buffer| buffer.rows)
    }

    /// Key of the chunk that is being filled.
    #[must_use]
    pub fn pending_key(&self) -> Option<u64> {
        self.buffer.as_ref().map(|buffer| buffer.key)
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
            return Err(ChunkerError::Buffered { rows: buffer.rows });
        }
        self.tuner = tuner(&length);
        self.length = length;
        Ok(())
    }

    /// Checks type, shape and size of a cell; the first one sets type and shape.
    fn check_cell(&mut self, cell: &Tensor) -> Result<(), ChunkerError> {
        let rank = cell.shape().rank();
        if rank >= MAX_RANK {
            return Err(ChunkerError::Rank { rank });
        }
        if cell.size_bytes() > MAX_CELL_BYTES {
            return Err(ChunkerError::CellSize { size: cell.size_bytes() });
        }
        match &self.spec {
            None => self.spec = Some((cell.dtype(), cell.shape().clone())),
            Some((dtype, shape)) if *dtype == cell.dtype() && shape == cell.shape() => {}
            Some((dtype, shape)) => {
                return Err(ChunkerError::Cell {
                    dtype: *dtype,
                    shape: shape.clone(),
                    actual_dtype: cell.dtype(),
                    actual_shape: cell.shape().clone(),
                });
            }
        }
        Ok(())
    }
}

impl Buffer {
    fn new(key: u64, episode_id: u64, step: i32) -> Self {
        let range = SequenceRange { episode_id, start: step, end: step, sparse: false };
        Self { key, range, rows: 0, size_bytes: 0, bytes: Vec::new(), strings: Vec::new() }
    }

    fn check_step(&self, episode_id: u64, step: i32) -> Result<(), ChunkerError> {
        if episode_id != self.range.episode_id {
            return Err(ChunkerError::Episode { buffered: self.range.episode_id, given: episode_id });
        }
        if step <= self.range.end {
            return Err(ChunkerError::Step { last: self.range.end, given: step });
        }
        Ok(())
    }

    fn push(&mut self, step: i32, cell: &Tensor) {
        let follows = self.rows == 0 || self.range.end.checked_add(1) == Some(step);
        self.range.sparse |= !follows;
        self.range.end = step;
        self.rows += 1;
        self.size_bytes += cell.size_bytes();
        if let Some(bytes) = cell.bytes() {
            self.bytes.extend_from_slice(bytes);
        }
        self.strings.extend_from_slice(cell.strings().unwrap_or_default());
    }

    fn finish(self, dtype: DType, cell: &Shape, delta: bool) -> FinishedChunk {
        let shape = Shape::batched(self.rows, cell.dims());
        let tensor = match dtype {
            DType::String => Tensor::from_strings(self.strings, shape),
            _ => Tensor::new(dtype, shape, Bytes::from(self.bytes)),
        };
        let tensor = tensor.expect("cells of one type and shape make a tensor");
        FinishedChunk { key: self.key, range: self.range, tensor, delta }
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
