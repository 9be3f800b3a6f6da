//! Columns whose chunks are cut together.
//!
//! Small columns that first appear in the same step and have the same chunk length share their chunks. The values of a
//! step are then adjacent in one block of memory with one description, regardless of the number of columns. A large
//! column has its own chunks, because an item keeps whole chunks alive, and an item that uses only a reward should not
//! keep image frames alive.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use relive_connection::{Error, Result};
use relive_tensor::{ChunkLength, ChunkSink, ChunkStatistic, Chunker, Cut, CutColumn, PlacedRows, Rows};
use smallvec::SmallVec;

use super::column_state::ColumnState;

use crate::chunks::{ChunkRef, ChunkSlot, Compressed, Compressibility, Encoder};

/// The largest value of a column that shares its chunks, in bytes. This limits the data that items keep alive
/// needlessly.
const MAX_SHARED_CELL_BYTES: u64 = 1 << 10;

/// The largest step of all columns that share their chunks, in bytes, for the same reason. Larger steps form several
/// chunks.
const MAX_SHARED_STEP_BYTES: u64 = 2 << 10;

/// Chunks that a call has finished, recorded so that their bytes can be counted.
pub(crate) type FinishedChunks = Vec<Arc<ChunkSlot>>;

/// A point in time: the position in the history, and the step in the episode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepPosition {
    pub(crate) position: u64,
    pub(crate) episode_id: u64,
    pub(crate) step: i32,
}

#[derive(Debug)]
pub(crate) struct ChunkGroup {
    /// Shared with the slots of its chunks, because columns may be read before the chunk is cut.
    chunker: Arc<Mutex<Chunker>>,
    /// The chunk that rows are being added to. Its slot is not filled yet.
    open: Option<ChunkRef>,
    length: ChunkLength,
    /// The group's columns, by their numbers in the writer.
    members: SmallVec<[usize; 1]>,
    /// The number of members that have left the group, because their chunk length changed.
    left: usize,
    compressibilities: SmallVec<[Compressibility; 1]>,
    /// The number of bytes in one step of the group's columns, or `None` if no other column may join.
    shared_bytes: Option<u64>,
}

/// The part of the writer's state that a group needs.
pub(crate) struct WriterContext<'a> {
    pub(crate) columns: &'a mut [ColumnState],
    pub(crate) encoder: &'a mut Encoder,
    pub(crate) new_key: &'a mut dyn FnMut() -> u64,
    /// The chunks that were cut.
    pub(crate) finished: &'a mut FinishedChunks,
}

impl ChunkGroup {
    /// Creates a group without columns, for columns with values like `rows`.
    pub(crate) fn new(length: ChunkLength, delta_encoded: bool, rows: &Rows<'_>) -> Result<ChunkGroup> {
        let chunker =
            Chunker::new(length, delta_encoded).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(ChunkGroup {
            chunker: Arc::new(Mutex::new(chunker)),
            open: None,
            length,
            members: SmallVec::new(),
            left: 0,
            compressibilities: SmallVec::new(),
            shared_bytes: is_small(rows).then_some(0),
        })
    }

    /// Returns whether a column with the given chunk length and values like `rows` belongs to this group.
    pub(crate) fn takes(&self, length: ChunkLength, rows: &Rows<'_>) -> bool {
        let step_bytes = self.shared_bytes.map(|bytes| bytes + rows.cell_bytes());
        let fits = step_bytes.is_some_and(|bytes| bytes <= MAX_SHARED_STEP_BYTES);
        fits && self.length == length && is_small(rows)
    }

    /// Adds a column with values like `rows`. Returns its number in the chunker.
    pub(crate) fn add(&mut self, column: usize, rows: &Rows<'_>) -> usize {
        self.shared_bytes = self.shared_bytes.map(|bytes| bytes + rows.cell_bytes());
        self.members.push(column);
        self.compressibilities.push(Compressibility::default());
        self.chunker.lock().add_column()
    }

    /// Records that a column has left the group.
    pub(crate) fn leave(&mut self) {
        self.left += 1;
    }

    /// Returns whether all columns have left the group.
    pub(crate) fn is_unused(&self) -> bool {
        self.left == self.members.len() && self.open.is_none()
    }

    /// Stores checked rows of some of the group's columns, identified by their numbers in the chunker.
    pub(crate) fn append(
        &mut self,
        cells: &[(usize, Rows<'_>)],
        at: StepPosition,
        owner: &mut WriterContext<'_>,
    ) -> Result<()> {
        // The chunker is locked during encoding, so that readers of columns find rows either in the chunker or in a
        // filled slot.
        let chunker = Arc::clone(&self.chunker);
        let mut locked = chunker.lock();
        let mut sink = self.sink(at.position, owner);
        let appended = locked.append(at.episode_id, at.step, cells, &mut sink);
        sink.result?;
        appended.map_err(|error| Error::invalid(error.to_string()))
    }

    /// Cuts the open chunk, if any.
    pub(crate) fn finish(&mut self, owner: &mut WriterContext<'_>) -> Result<()> {
        let chunker = Arc::clone(&self.chunker);
        let mut locked = chunker.lock();
        let mut sink = self.sink(0, owner);
        locked.flush(&mut sink);
        sink.result
    }

    /// Returns the chunk that is being filled.
    pub(crate) fn open(&self) -> Option<&Arc<ChunkSlot>> {
        self.open.as_ref().map(ChunkRef::slot)
    }

    /// Returns the number of buffered rows of a column.
    pub(crate) fn buffered_rows(&self, place: usize) -> u32 {
        self.lock().buffered_rows(place)
    }

    /// Records that items were created. Returns whether any of these items needs the open chunk.
    pub(crate) fn note_items(&self) -> bool {
        let is_awaited = self.open().is_some_and(|slot| slot.has_pending_items());
        self.lock().note_items(is_awaited)
    }

    /// Records an item that is about to be sent, to tune the chunk length.
    pub(crate) fn record_item(&self, cells: u32, chunks: &[ChunkStatistic]) {
        self.lock().record_item(cells, chunks);
    }

    fn lock(&self) -> MutexGuard<'_, Chunker> {
        self.chunker.lock()
    }

    fn sink<'f, 'o>(&'f mut self, position: u64, owner: &'f mut WriterContext<'o>) -> GroupSink<'f, 'o> {
        let compressed = match self.length {
            ChunkLength::Constant { .. } => Compressed::Columns,
            ChunkLength::AutoTuned { .. } => Compressed::Rows,
        };
        let Self { chunker, open, members, compressibilities, .. } = self;
        GroupSink { chunker, open, members, compressibilities, compressed, position, owner, result: Ok(()) }
    }
}

fn is_small(rows: &Rows<'_>) -> bool {
    rows.cell_bytes() <= MAX_SHARED_CELL_BYTES
}

/// Receives the output of a chunker.
struct GroupSink<'f, 'o> {
    chunker: &'f Arc<Mutex<Chunker>>,
    open: &'f mut Option<ChunkRef>,
    members: &'f [usize],
    compressibilities: &'f mut [Compressibility],
    compressed: Compressed,
    position: u64,
    owner: &'f mut WriterContext<'o>,
    result: Result<()>,
}

impl ChunkSink for GroupSink<'_, '_> {
    fn new_key(&mut self) -> u64 {
        (self.owner.new_key)()
    }

    fn place(&mut self, placed: PlacedRows) {
        if self.open.as_ref().is_none_or(|open| open.key() != placed.chunk_key) {
            let slot = ChunkSlot::new(placed.chunk_key, Arc::clone(self.chunker));
            *self.open = Some(ChunkRef::new(Arc::new(slot), 0));
        }
        let column = self.members.get(placed.column);
        let column = column.and_then(|&column| self.owner.columns.get_mut(column));
        if let (Some(open), Some(column)) = (&self.open, column) {
            let chunk = ChunkRef::new(Arc::clone(open.slot()), placed.index);
            column.push(self.position + u64::from(placed.first), placed.rows, &chunk, placed.offset);
        }
    }

    fn cut(&mut self, cut: &Cut<'_>) {
        let Some(open) = self.open.take() else { return };
        match self.owner.encoder.encode(cut, self.compressed, self.compressibilities) {
            Ok(encoded) => {
                let rows = cut.columns().iter().map(CutColumn::rows).max();
                open.fill(encoded, rows.unwrap_or(0));
                self.owner.finished.push(Arc::clone(open.slot()));
            }
            Err(error) => self.result = Err(self.named(cut, &error)),
        }
    }
}

impl GroupSink<'_, '_> {
    fn named(&self, cut: &Cut<'_>, error: &relive_tensor::ChunkError) -> Error {
        let column = error.column.and_then(|place| self.members.get(cut.columns().get(place)?.column()));
        let column = column.and_then(|&column| self.owner.columns.get(column));
        Error::invalid(format!("column {:?}: {error}", column.map_or("", |column| column.path())))
    }
}
