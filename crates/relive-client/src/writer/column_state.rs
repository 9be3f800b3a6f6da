//! One column of a writer: its chunker, and the cells that can still be referred to.

use std::sync::Arc;

use parking_lot::Mutex;
use relive_tensor::limits::{MAX_CELL_BYTES, MAX_RANK};
use relive_tensor::{
    ChunkLength, ChunkStatistic, ColumnChunker, DType, FinishedChunk, PlacedRows, Shape, Tensor,
};

use super::append_error::{AppendFault, AppendMismatch};
use super::cells::KeptCells;
use super::encode::Encoder;
use super::slot::{ChunkRef, ChunkSlot};
use super::thrift::Thrift;
use crate::history::CellSpec;
use crate::{Error, ErrorKind, Result};

/// A column's place in time: the position in the history, and the step in the episode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) position: u64,
    pub(crate) episode_id: u64,
    pub(crate) step: i32,
}

/// Chunks that a call finished, so that their bytes can be counted.
pub(crate) type Finished = Vec<Arc<ChunkSlot>>;

#[derive(Debug)]
pub(crate) struct ColumnState {
    name: ColumnName,
    spec: Option<Arc<CellSpec>>,
    /// Shared with the slots of its chunks, whose columns may be read before the chunk is cut.
    chunker: Arc<Mutex<ColumnChunker>>,
    /// The chunk that cells are being added to; its slot is not filled yet.
    open: Option<ChunkRef>,
    length: ChunkLength,
    cells: KeptCells,
    thrift: Thrift,
}

/// What errors call a column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnName {
    /// The number that its users know it by.
    pub(crate) number: usize,
    /// Where it is in the step.
    pub(crate) path: Arc<str>,
}

/// What is stored of a step or of several: one tensor, whose leading dimension may be the steps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values<'a> {
    /// The value of one step.
    One(&'a Tensor),
    /// The values of consecutive steps, at least one.
    Many(&'a Tensor),
}

impl<'a> Values<'a> {
    fn tensor(self) -> &'a Tensor {
        match self {
            Values::One(value) => value,
            Values::Many(rows) => rows,
        }
    }

    /// Dimensions of one step's value.
    fn cell_dims(self) -> &'a [u32] {
        match self {
            Values::One(value) => value.shape().dims(),
            Values::Many(rows) => rows.shape().cell_dims(),
        }
    }

    fn dtype(self) -> DType {
        self.tensor().dtype()
    }

    fn cell_bytes(self) -> u64 {
        let rows = match self {
            Values::One(_) => 1,
            Values::Many(rows) => rows.shape().rows().unwrap_or(1),
        };
        self.tensor().size_bytes() / u64::from(rows.max(1))
    }
}

impl ColumnName {
    pub(crate) fn error(&self, fault: AppendFault) -> Error {
        AppendMismatch { column: self.number, path: (*self.path).to_owned(), fault }.into()
    }

    /// Checks whether a chunk can hold `values` at all.
    pub(crate) fn check_size(&self, values: Values<'_>) -> Result<()> {
        let (rank, size_bytes) = (values.cell_dims().len(), values.cell_bytes());
        if rank >= MAX_RANK {
            return Err(self.error(AppendFault::Rank { rank }));
        }
        if size_bytes > MAX_CELL_BYTES {
            return Err(self.error(AppendFault::Size { size_bytes }));
        }
        Ok(())
    }
}

impl ColumnState {
    pub(crate) fn new(name: ColumnName, length: ChunkLength, delta_encoded: bool) -> Result<ColumnState> {
        let chunker =
            ColumnChunker::new(length, delta_encoded).map_err(|error| invalid(&name.path, error))?;
        Ok(ColumnState {
            name,
            spec: None,
            chunker: Arc::new(Mutex::new(chunker)),
            open: None,
            length,
            cells: KeptCells::default(),
            thrift: Thrift::default(),
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.name.path
    }

    pub(crate) fn name(&self) -> &ColumnName {
        &self.name
    }

    pub(crate) fn spec(&self) -> Option<&Arc<CellSpec>> {
        self.spec.as_ref()
    }

    /// The cells that are kept.
    pub(crate) fn cells(&self) -> &KeptCells {
        &self.cells
    }

    /// Whether `values` may be appended from `position` on; nothing changes.
    pub(crate) fn check(&self, values: Values<'_>, position: u64) -> Result<()> {
        if self.cells.newest() == Some(position) {
            return Err(self.name.error(AppendFault::SetTwice));
        }
        let Some(spec) = &self.spec else { return self.name.check_size(values) };
        if spec.dtype != values.dtype() {
            let (got, expected) = (values.dtype(), spec.dtype);
            return Err(self.name.error(AppendFault::DType { got, expected }));
        }
        if spec.shape.dims() != values.cell_dims() {
            let (got, expected) = (Shape::from(values.cell_dims()), spec.shape.clone());
            return Err(self.name.error(AppendFault::Shape { got, expected }));
        }
        self.name.check_size(values)
    }

    /// Stores checked values; adds the chunks that were cut to `finished`.
    pub(crate) fn append(
        &mut self,
        values: Values<'_>,
        at: Moment,
        owner: Owner<'_>,
        draw_key: &mut impl FnMut() -> u64,
        finished: &mut Finished,
    ) -> Result<()> {
        if self.spec.is_none() {
            let (dtype, shape) = (values.dtype(), Shape::from(values.cell_dims()));
            let path = Arc::clone(&self.name.path);
            self.spec = Some(Arc::new(CellSpec::new(owner.writer_id, owner.index, path, dtype, shape)));
        }
        let chunker = Arc::clone(&self.chunker);
        // Held over the encoding, so that readers of columns find rows either here or in a filled slot.
        let mut chunker = chunker.lock();
        match values {
            Values::One(value) => {
                let placed = chunker.append(draw_key, at.episode_id, at.step, value);
                let (first, cut) = placed.map_err(|error| invalid(&self.name.path, error))?;
                self.place(at.position, &PlacedRows { first, rows: 1, cut }, owner.encoder, finished)?;
            }
            Values::Many(rows) => {
                let placed = chunker.append_rows(draw_key, at.episode_id, at.step, rows);
                let mut position = at.position;
                for placed in placed.map_err(|error| invalid(&self.name.path, error))? {
                    self.place(position, &placed, owner.encoder, finished)?;
                    position += u64::from(placed.rows);
                }
            }
        }
        drop(chunker);
        self.trim();
        Ok(())
    }

    /// Takes note of where cells went, and fills their slot if their chunk was cut.
    fn place(
        &mut self,
        position: u64,
        placed: &PlacedRows,
        encoder: &Encoder,
        finished: &mut Finished,
    ) -> Result<()> {
        let key = placed.first.chunk_key;
        if self.open.as_ref().is_none_or(|open| open.key() != key) {
            let slot = ChunkSlot::new(key, Arc::clone(&self.chunker));
            self.open = Some(ChunkRef::new(Arc::new(slot)));
        }
        if let Some(open) = &self.open {
            self.cells.push(position, placed.rows, open, placed.first.offset);
        }
        if let Some(cut) = &placed.cut {
            finished.extend(self.fill(cut, encoder)?);
        }
        Ok(())
    }

    fn trim(&mut self) {
        self.cells.trim(u64::from(self.length.num_keep_alive_refs()));
        self.note_oldest();
    }

    fn note_oldest(&self) {
        if let Some(spec) = &self.spec {
            spec.forget_before(self.cells.oldest_number());
        }
    }

    fn fill(&mut self, finished: &FinishedChunk, encoder: &Encoder) -> Result<Option<Arc<ChunkSlot>>> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let rows = finished.tensor.shape().rows().unwrap_or(0);
        open.fill(encoder.encode(finished, &mut self.thrift, &self.name.path)?, rows);
        Ok(Some(Arc::clone(open.slot())))
    }

    /// Cuts the open chunk, if there is one.
    pub(crate) fn finish(&mut self, encoder: &Encoder, finished: &mut Finished) -> Result<()> {
        let chunker = Arc::clone(&self.chunker);
        let mut chunker = chunker.lock();
        if let Some(cut) = chunker.flush() {
            finished.extend(self.fill(&cut, encoder)?);
        }
        Ok(())
    }

    /// Cuts the open chunk if it is wanted.
    pub(crate) fn finish_if(
        &mut self,
        is_wanted: impl Fn(&ChunkSlot) -> bool,
        encoder: &Encoder,
        finished: &mut Finished,
    ) -> Result<()> {
        match &self.open {
            Some(open) if is_wanted(open.slot()) => self.finish(encoder, finished),
            Some(_) | None => Ok(()),
        }
    }

    /// Drops all cells; positions start anew.
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.note_oldest();
    }

    /// Whether the length is tuned, and there is anything to choose.
    pub(crate) fn is_tuned(&self) -> bool {
        matches!(self.length, ChunkLength::AutoTuned { num_keep_alive_refs, .. } if num_keep_alive_refs > 1)
    }

    /// Takes note of an item about to be sent, for the chunk length.
    pub(crate) fn record_item(&mut self, cells: u32, chunks: &[ChunkStatistic]) {
        self.chunker.lock().record_item(cells, chunks);
    }

    /// Replaces the chunk length; only while no cell is buffered.
    pub(crate) fn configure(&mut self, length: ChunkLength) -> Result<()> {
        self.chunker.lock().set_length(length).map_err(|error| {
            Error::new(ErrorKind::FailedPrecondition, format!("column {:?}: {error}", self.name.path))
        })?;
        self.length = length;
        self.trim();
        Ok(())
    }
}

/// What a column needs to know of its writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) writer_id: u64,
    pub(crate) index: usize,
    pub(crate) encoder: &'a Encoder,
}

fn invalid(path: &str, error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("column {path:?}: {error}"))
}
