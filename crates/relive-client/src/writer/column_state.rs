//! One column of a writer: its chunker, and the cells that can still be referred to.

use std::collections::VecDeque;
use std::sync::Arc;

use relive_tensor::limits::{MAX_CELL_BYTES, MAX_RANK};
use relive_tensor::{ChunkLength, ChunkStatistic, ColumnChunker, FinishedChunk, Tensor};

use super::encode::encode_finished;
use super::slot::{ChunkRef, ChunkSlot};
use crate::history::{Cell, CellSpec, IndexError};
use crate::{Error, ErrorKind, Result};

/// A column's place in time: the position in the history, and the step in the episode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) position: u64,
    pub(crate) episode_id: u64,
    pub(crate) step: i32,
}

#[derive(Debug)]
pub(crate) struct ColumnState {
    path: Arc<str>,
    spec: Option<Arc<CellSpec>>,
    chunker: ColumnChunker,
    /// The chunk that cells are being added to; its slot is not filled yet.
    open: Option<ChunkRef>,
    tuned: bool,
    /// The kept cells with their positions in the history, ascending.
    cells: VecDeque<(u64, Cell)>,
}

impl ColumnState {
    pub(crate) fn new(path: Arc<str>, length: ChunkLength) -> Result<ColumnState> {
        let chunker = ColumnChunker::new(length, false).map_err(|error| invalid(&path, error))?;
        Ok(ColumnState {
            path,
            spec: None,
            chunker,
            open: None,
            tuned: is_tuned(length),
            cells: VecDeque::new(),
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn spec(&self) -> Option<&Arc<CellSpec>> {
        self.spec.as_ref()
    }

    /// Whether `value` may be appended at `position`; nothing changes.
    pub(crate) fn check(&self, value: &Tensor, position: u64) -> Result<()> {
        if self.cells.back().is_some_and(|(newest, _)| *newest == position) {
            return Err(Error::invalid(format!("column {:?} was already set in this step", self.path)));
        }
        match &self.spec {
            Some(spec) if !spec.accepts(value) => Err(Error::invalid(format!(
                "column {:?} got {} {}, but its first value was {} {}; every step of a column must look alike",
                self.path,
                value.dtype(),
                value.shape(),
                spec.dtype,
                spec.shape,
            ))),
            Some(_) | None => check_size(&self.path, value),
        }
    }

    /// Stores a checked value; whether a chunk was cut.
    pub(crate) fn append(
        &mut self,
        value: &Tensor,
        at: Moment,
        writer_id: u64,
        index: usize,
        draw_key: &mut impl FnMut() -> u64,
    ) -> Result<Option<Arc<ChunkSlot>>> {
        let (cell, finished) = self
            .chunker
            .append(draw_key, at.episode_id, at.step, value)
            .map_err(|error| invalid(&self.path, error))?;
        if self.spec.is_none() {
            let (dtype, shape) = (value.dtype(), value.shape().clone());
            self.spec =
                Some(Arc::new(CellSpec { writer_id, index, path: Arc::clone(&self.path), dtype, shape }));
        }
        let chunk = match &self.open {
            Some(open) if open.key() == cell.chunk_key => open.clone(),
            Some(_) | None => ChunkRef::new(Arc::new(ChunkSlot::new(cell.chunk_key))),
        };
        self.open = Some(chunk.clone());
        self.cells.push_back((at.position, Cell { chunk, offset: cell.offset }));
        self.trim();
        finished.map(|finished| self.fill(&finished)).transpose()
    }

    fn trim(&mut self) {
        while self.cells.len() > usize::try_from(self.chunker.num_keep_alive_refs()).unwrap_or(usize::MAX) {
            self.cells.pop_front();
        }
    }

    fn fill(&mut self, finished: &FinishedChunk) -> Result<Arc<ChunkSlot>> {
        let open = self.open.take().expect("a chunk is cut from cells that were appended to an open slot");
        let rows = finished.tensor.shape().dims().first().copied().unwrap_or(0);
        open.fill(encode_finished(finished, &self.path)?, rows);
        Ok(Arc::clone(open.slot()))
    }

    /// Cuts the open chunk, if there is one.
    pub(crate) fn finish(&mut self) -> Result<Option<Arc<ChunkSlot>>> {
        self.chunker.flush().map(|finished| self.fill(&finished)).transpose()
    }

    /// Cuts the open chunk if an item refers to it.
    pub(crate) fn finish_if_pending(&mut self) -> Result<Option<Arc<ChunkSlot>>> {
        if self.open.as_ref().is_some_and(|open| open.has_pending_items()) { self.finish() } else { Ok(None) }
    }

    /// Drops cells before `position`.
    pub(crate) fn forget_before(&mut self, position: u64) {
        while self.cells.front().is_some_and(|(at, _)| *at < position) {
            self.cells.pop_front();
        }
    }

    /// The cell at a position of the history.
    pub(crate) fn cell(&self, position: u64) -> Result<&Cell, IndexError> {
        let index = self.cells.partition_point(|(at, _)| *at < position);
        match self.cells.get(index) {
            Some((at, cell)) if *at == position => Ok(cell),
            Some((oldest, _)) if index == 0 => Err(IndexError::Expired { step: position, oldest: *oldest }),
            Some(_) | None => Err(IndexError::Missing { step: position }),
        }
    }

    pub(crate) fn is_tuned(&self) -> bool {
        self.tuned
    }

    /// Takes note of an item about to be sent, for the chunk length.
    pub(crate) fn record_item(&mut self, cells: u32, chunks: &[ChunkStatistic]) {
        self.chunker.record_item(cells, chunks);
    }

    /// Replaces the chunk length; only while no cell is buffered.
    pub(crate) fn configure(&mut self, length: ChunkLength) -> Result<()> {
        self.chunker.set_length(length).map_err(|error| {
            Error::new(ErrorKind::FailedPrecondition, format!("column {:?}: {error}", self.path))
        })?;
        self.tuned = is_tuned(length);
        self.trim();
        Ok(())
    }
}

/// Whether the length is tuned, and there is anything to choose.
fn is_tuned(length: ChunkLength) -> bool {
    matches!(length, ChunkLength::AutoTuned { num_keep_alive_refs, .. } if num_keep_alive_refs > 1)
}

/// Whether a chunk can hold `value` at all.
pub(crate) fn check_size(path: &str, value: &Tensor) -> Result<()> {
    let (rank, size) = (value.shape().rank(), value.size_bytes());
    if rank >= MAX_RANK {
        return Err(Error::invalid(format!(
            "column {path:?} has {rank} dimensions; fewer than {MAX_RANK} can be stored"
        )));
    }
    if size > MAX_CELL_BYTES {
        return Err(Error::invalid(format!(
            "column {path:?} has {size} bytes in one step; the limit is {MAX_CELL_BYTES}"
        )));
    }
    Ok(())
}

fn invalid(path: &str, error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("column {path:?}: {error}"))
}
