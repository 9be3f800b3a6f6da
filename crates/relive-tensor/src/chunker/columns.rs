//! The chunker, which collects rows of columns into shared chunks.

use smallvec::SmallVec;

use super::buffer::Buffer;
use super::cut::Cut;
use super::cut_column::{CutColumn, CutData};
use super::open::Open;
use super::pace::Pace;
use super::rows::Rows;
use super::{AutoTuner, ChunkLength, ChunkStatistic, ChunkerError};
use crate::dtype::DType;
use crate::limits::{CHUNKER_CUT_BYTES, MAX_CELL_BYTES, MAX_RANK};
use crate::shape::Shape;
use crate::tensor::{Tensor, TensorError};

/// The location that rows of a column will have once their chunk has been cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlacedRows {
    /// The number of the column in its chunker.
    pub column: usize,
    /// The key of the chunk, which is known as soon as the chunk has a row.
    pub chunk_key: u64,
    /// The index of the tensor in the chunk.
    pub index: u32,
    /// The row in that tensor.
    pub offset: u32,
    /// The index, among the given rows, of the first row at this location. The other rows follow it.
    pub first: u32,
    /// The number of rows at this location.
    pub rows: u32,
}

/// The interface through which a chunker requests keys and reports chunks.
pub trait ChunkSink {
    /// Returns a key for a new chunk.
    fn new_key(&mut self) -> u64;

    /// Reports where rows are placed.
    fn place(&mut self, placed: PlacedRows);

    /// Reports a full chunk. Its rows are dropped afterwards.
    fn cut(&mut self, cut: &Cut<'_>);
}

/// Collects the rows of several columns and cuts them into shared chunks, in which the values of one step are adjacent.
///
/// A column may lack a row at any step. The first row of a column determines the column's type and shape.
///
/// ```
/// use relive_tensor::{ChunkLength, ChunkSink, Chunker, Cut, PlacedRows, Rows, Tensor};
///
/// #[derive(Default)]
/// struct Chunks(Vec<Vec<Tensor>>);
///
/// impl ChunkSink for Chunks {
///     fn new_key(&mut self) -> u64 { 7 }
///     fn place(&mut self, _: PlacedRows) {}
///     fn cut(&mut self, cut: &Cut<'_>) {
///         self.0.push(cut.columns().iter().filter_map(|column| column.to_tensor().ok()).collect());
///     }
/// }
///
/// let mut chunker = Chunker::new(ChunkLength::constant(2, 4)?, false)?;
/// let (observation, reward) = (chunker.add_column(), chunker.add_column());
/// let mut chunks = Chunks::default();
/// for step in 0..2_u8 {
///     let (cell, gain) = (Tensor::from_slice(&[step, 1], [2])?, Tensor::scalar(0.5_f32));
///     let cells = [(observation, Rows::step(&cell)), (reward, Rows::step(&gain))];
///     chunker.append(1, i32::from(step), &cells, &mut chunks)?;
/// }
/// assert_eq!(chunks.0[0][0].to_vec::<u8>()?, [0, 1, 1, 1]);
/// assert_eq!(chunks.0[0][1].to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chunker {
    length: ChunkLength,
    tuned: Option<Tuned>,
    delta: bool,
    columns: SmallVec<[Buffered; 1]>,
    open: Option<Open>,
}

/// Determines the length of chunks from how well they compress and how often items are created.
#[derive(Clone, Debug)]
struct Tuned {
    tuner: AutoTuner,
    pace: Pace,
}

/// A column, and its rows in the open chunk.
#[derive(Clone, Debug, Default)]
struct Buffered {
    spec: Option<(DType, Shape)>,
    buffer: Buffer,
    /// The column's index in the open chunk, which is valid if the column has rows there.
    index: u32,
    /// The step of the column's last row in the open chunk.
    last_step: i32,
}

impl Chunker {
    /// Creates a chunker without columns. `delta` enables delta coding of its chunks.
    ///
    /// # Errors
    /// [`ChunkerError`] if the numbers in `length` are invalid.
    pub fn new(length: ChunkLength, delta: bool) -> Result<Self, ChunkerError> {
        let length = length.validate()?;
        Ok(Self { length, tuned: tuned(&length), delta, columns: SmallVec::new(), open: None })
    }

    /// Adds a column and returns its number.
    pub fn add_column(&mut self) -> usize {
        self.columns.push(Buffered::default());
        self.columns.len() - 1
    }

    /// Appends rows of some columns, the same number for each, for consecutive steps starting at `first_step`. Reports
    /// to `sink` where the rows have been placed and which chunks are full.
    ///
    /// # Errors
    /// [`ChunkerError`] if the type or shape of a row differs from the column's first row, if the columns differ in
    /// their number of rows, if the episode changes while rows are buffered, if a step does not come after the column's
    /// last buffered step, or if a row exceeds [`MAX_CELL_BYTES`]. After an error, nothing has been appended.
    pub fn append<S: ChunkSink>(
        &mut self,
        episode_id: u64,
        first_step: i32,
        cells: &[(usize, Rows<'_>)],
        sink: &mut S,
    ) -> Result<(), ChunkerError> {
        let Some(count) = cells.first().map(|(_, rows)| rows.rows()) else { return Ok(()) };
        self.check(episode_id, first_step, cells, count)?;
        for (column, rows) in cells {
            let spec = self.columns.get_mut(*column).map(|column| &mut column.spec);
            if let Some(spec @ None) = spec {
                *spec = Some((rows.dtype(), Shape::from(rows.cell_dims())));
            }
        }
        let mut from = 0;
        while from < count {
            let step = first_step.saturating_add(i32::try_from(from).unwrap_or(i32::MAX));
            from += self.append_part(episode_id, step, cells, from, count - from, sink);
        }
        Ok(())
    }

    /// Appends as many rows as fit into the open chunk, but at least one, starting with row number `from`.
    fn append_part<S: ChunkSink>(
        &mut self,
        episode_id: u64,
        step: i32,
        cells: &[(usize, Rows<'_>)],
        from: u32,
        left: u32,
        sink: &mut S,
    ) -> u32 {
        let row_bytes = cells.iter().map(|(_, rows)| rows.cell_bytes()).sum::<u64>().max(1);
        let max_steps = self.max_steps(left, row_bytes);
        let is_new = self.open.is_none();
        let open = self.open.get_or_insert_with(|| Open::new(sink.new_key(), episode_id, step));
        let room = max_steps.saturating_sub(open.steps) + u32::from(open.continues(step));
        let until_large = CHUNKER_CUT_BYTES.saturating_sub(open.size_bytes).div_ceil(row_bytes);
        let fitting = u32::try_from(until_large).unwrap_or(u32::MAX).min(room).max(1);
        let taken = fitting.min(left);
        let parts = || cells.iter().map(|(column, rows)| (*column, rows.part(from, taken)));
        let last_step = step.saturating_add(i32::try_from(taken - 1).unwrap_or(i32::MAX));
        let added = open.add_steps(step, taken);
        if let Some(tuned) = &mut self.tuned {
            tuned.pace.add_steps(added);
        }
        open.size_bytes += parts().map(|(_, part)| part.size_bytes()).sum::<u64>();
        let is_full = open.steps >= max_steps || open.size_bytes >= CHUNKER_CUT_BYTES;
        for (column, _) in cells {
            let Some(buffered) = self.columns.get_mut(*column) else { continue };
            if buffered.buffer.rows() == 0 {
                buffered.index = open.columns;
                open.columns += 1;
            }
            let (chunk_key, index, offset) = (open.key, buffered.index, buffered.buffer.rows());
            sink.place(PlacedRows { column: *column, chunk_key, index, offset, first: from, rows: taken });
            buffered.last_step = last_step;
        }
        if is_new && is_full {
            self.cut_given(parts(), sink);
            return taken;
        }
        for (column, part) in parts() {
            if let Some(buffered) = self.columns.get_mut(column) {
                buffered.buffer.push(&part);
            }
        }
        if is_full {
            self.flush(sink);
        }
        taken
    }

    /// Cuts a chunk that contains only rows of the current call.
    fn cut_given<'r>(&mut self, parts: impl Iterator<Item = (usize, Rows<'r>)>, sink: &mut impl ChunkSink) {
        let Some(open) = self.open.take() else { return };
        let columns = parts.map(|(column, part)| CutColumn {
            column,
            dtype: part.dtype(),
            cell_dims: part.cell_dims(),
            rows: part.rows(),
            data: CutData::Given(part.data()),
        });
        let columns = columns.collect();
        sink.cut(&Cut { key: open.key, range: open.range, delta: self.delta, columns });
    }

    /// Cuts a chunk from the buffered rows, if there are any.
    pub fn flush(&mut self, sink: &mut impl ChunkSink) {
        let Some(Open { key, mut range, steps, .. }) = self.open.take() else { return };
        let mut columns: SmallVec<[CutColumn<'_>; 8]> = SmallVec::new();
        let mut indices: SmallVec<[u32; 8]> = SmallVec::new();
        for (number, column) in self.columns.iter().enumerate() {
            let rows = column.buffer.rows();
            let Some((dtype, shape)) = column.spec.as_ref().filter(|_| rows > 0) else { continue };
            range.sparse |= rows != steps;
            let place = indices.partition_point(|&index| index < column.index);
            let data = CutData::Buffered(&column.buffer);
            let cut = CutColumn { column: number, dtype: *dtype, cell_dims: shape.dims(), rows, data };
            indices.insert(place, column.index);
            columns.insert(place, cut);
        }
        sink.cut(&Cut { key, range, delta: self.delta, columns });
        self.columns.iter_mut().for_each(|column| column.buffer.clear());
    }

    /// Copies `rows` rows, starting at `offset`, as `[rows, *cell]`, from tensor number `index` of the open chunk
    /// `key`. Returns `None` if that chunk is not open or does not have that many rows.
    ///
    /// # Errors
    /// [`TensorError`] from the construction of the tensor, which never occurs for appended rows.
    #[must_use]
    pub fn pending_rows(
        &self,
        key: u64,
        index: u32,
        offset: u32,
        rows: u32,
    ) -> Option<Result<Tensor, TensorError>> {
        self.open.filter(|open| open.key == key)?;
        let is_it = |column: &&Buffered| column.buffer.rows() > 0 && column.index == index;
        let column = self.columns.iter().find(is_it)?;
        let (dtype, cell) = column.spec.as_ref()?;
        let end = offset.checked_add(rows).filter(|end| *end <= column.buffer.rows())?;
        Some(column.buffer.copy(*dtype, cell, offset..end))
    }

    /// Returns the number of steps at which a chunk is cut if an item needs it. With a constant length, every chunk is
    /// cut at this number of steps.
    #[must_use]
    pub fn max_chunk_length(&self) -> u32 {
        match (&self.tuned, self.length) {
            (Some(tuned), _) => tuned.tuner.max_chunk_length(),
            (None, ChunkLength::Constant { max_chunk_length, .. }) => max_chunk_length,
            (None, ChunkLength::AutoTuned { .. }) => 1,
        }
    }

    /// Returns the number of steps at which the open chunk is cut if `given` steps of `row_bytes` bytes are appended at
    /// once.
    fn max_steps(&self, given: u32, row_bytes: u64) -> u32 {
        let length = self.max_chunk_length();
        let is_awaited = self.open.is_some_and(|open| open.is_awaited);
        match &self.tuned {
            Some(tuned) if !is_awaited => {
                let reach = tuned.pace.reach(given, row_bytes);
                length.max(reach.min(self.length.num_keep_alive_refs()))
            }
            Some(_) | None => length,
        }
    }

    /// Records that items were created from the rows appended so far. `is_awaited` states whether an item needs the
    /// open chunk. Returns whether that chunk should be [cut](Self::flush) now. Has no effect with a constant length.
    pub fn note_items(&mut self, is_awaited: bool) -> bool {
        let length = self.max_chunk_length();
        let Some(tuned) = &mut self.tuned else { return false };
        tuned.pace.note_items();
        match &mut self.open {
            Some(open) if is_awaited => {
                open.is_awaited = true;
                open.steps >= length
            }
            Some(_) | None => false,
        }
    }

    /// Returns the number of buffered rows of a column.
    #[must_use]
    pub fn buffered_rows(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(0, |column| column.buffer.rows())
    }

    /// Records an item that is about to be sent; see [`AutoTuner::record_item`]. Has no effect with a constant length.
    pub fn record_item(&mut self, cells: u32, chunks: &[ChunkStatistic]) {
        if let Some(tuned) = &mut self.tuned {
            tuned.tuner.record_item(cells, chunks);
        }
    }

    fn check(
        &self,
        episode_id: u64,
        first_step: i32,
        cells: &[(usize, Rows<'_>)],
        count: u32,
    ) -> Result<(), ChunkerError> {
        let last = i32::try_from(count.saturating_sub(1)).ok().and_then(|more| first_step.checked_add(more));
        last.ok_or(ChunkerError::Steps { first: first_step, rows: count })?;
        if let Some(Open { range, .. }) = &self.open {
            if episode_id != range.episode_id {
                return Err(ChunkerError::Episode { buffered: range.episode_id, given: episode_id });
            }
            if first_step < range.end {
                return Err(ChunkerError::Step { last: range.end, given: first_step });
            }
        }
        for (number, rows) in cells {
            let columns = self.columns.len();
            let column =
                self.columns.get(*number).ok_or(ChunkerError::NoSuchColumn { column: *number, columns })?;
            if rows.rows() != count {
                return Err(ChunkerError::Rows { expected: count, got: rows.rows() });
            }
            column.check(first_step, rows)?;
        }
        Ok(())
    }
}

impl Buffered {
    fn check(&self, first_step: i32, rows: &Rows<'_>) -> Result<(), ChunkerError> {
        if self.buffer.rows() > 0 && first_step <= self.last_step {
            return Err(ChunkerError::Step { last: self.last_step, given: first_step });
        }
        let (dims, rank, size) = (rows.cell_dims(), rows.cell_dims().len(), rows.cell_bytes());
        if rank >= MAX_RANK {
            return Err(ChunkerError::Rank { rank });
        }
        if size > MAX_CELL_BYTES {
            return Err(ChunkerError::CellSize { size });
        }
        match &self.spec {
            Some((dtype, shape)) if *dtype != rows.dtype() || !shape.is(dims) => Err(ChunkerError::Cell {
                dtype: *dtype,
                shape: shape.clone(),
                actual_dtype: rows.dtype(),
                actual_shape: Shape::from(dims),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

fn tuned(length: &ChunkLength) -> Option<Tuned> {
    match *length {
        ChunkLength::Constant { .. } => None,
        ChunkLength::AutoTuned { num_keep_alive_refs, throughput_weight } => Some(Tuned {
            tuner: AutoTuner::new(num_keep_alive_refs, throughput_weight),
            pace: Pace::default(),
        }),
    }
}
