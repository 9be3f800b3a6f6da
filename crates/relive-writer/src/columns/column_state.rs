//! One column of a writer: the type and shape of its values, and the cells to which items can still refer.

use std::sync::Arc;

use relive_connection::{Error, Result};
use relive_tensor::limits::{MAX_CELL_BYTES, MAX_RANK};
use relive_tensor::{ChunkLength, Rows, Shape};

use super::append_error::{AppendFault, AppendMismatch};
use super::cells::KeptCells;
use super::column::CellSpec;
use crate::chunks::ChunkRef;

#[derive(Debug)]
pub(crate) struct ColumnState {
    name: ColumnName,
    spec: Option<Arc<CellSpec>>,
    /// Set once the first value has been appended.
    membership: Option<Membership>,
    length: ChunkLength,
    cells: KeptCells,
}

/// Where a column's rows are buffered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) group: usize,
    /// The column's number in the group's chunker.
    pub(crate) number: usize,
}

/// The name that errors use for a column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnName {
    /// The number by which callers identify the column.
    pub(crate) number: usize,
    /// The column's path in the step.
    pub(crate) path: Arc<str>,
}

impl ColumnName {
    pub(crate) fn error(&self, fault: AppendFault) -> Error {
        AppendMismatch { column: self.number, path: (*self.path).to_owned(), fault }.into()
    }

    /// Checks whether a chunk can hold `rows`.
    pub(crate) fn check_size(&self, rows: &Rows<'_>) -> Result<()> {
        let (rank, size_bytes) = (rows.cell_dims().len(), rows.cell_bytes());
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
    pub(crate) fn new(name: ColumnName, length: ChunkLength) -> Result<ColumnState> {
        let length = length.validate();
        let length = length.map_err(|error| Error::invalid(format!("column {:?}: {error}", name.path)))?;
        Ok(ColumnState { name, spec: None, membership: None, length, cells: KeptCells::default() })
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

    /// Returns the kept cells.
    pub(crate) fn cells(&self) -> &KeptCells {
        &self.cells
    }

    pub(crate) fn length(&self) -> ChunkLength {
        self.length
    }

    pub(crate) fn membership(&self) -> Option<Membership> {
        self.membership
    }

    pub(crate) fn join(&mut self, membership: Membership) {
        self.membership = Some(membership);
    }

    /// Checks whether `rows` may be appended at `position`, without changing anything.
    pub(crate) fn check(&self, rows: &Rows<'_>, position: u64) -> Result<()> {
        if self.cells.newest() == Some(position) {
            return Err(self.name.error(AppendFault::SetTwice));
        }
        let Some(spec) = &self.spec else { return self.name.check_size(rows) };
        if spec.dtype != rows.dtype() {
            let (got, expected) = (rows.dtype(), spec.dtype);
            return Err(self.name.error(AppendFault::DType { got, expected }));
        }
        if !spec.shape.is(rows.cell_dims()) {
            let (got, expected) = (Shape::from(rows.cell_dims()), spec.shape.clone());
            return Err(self.name.error(AppendFault::Shape { got, expected }));
        }
        self.name.check_size(rows)
    }

    /// Records the type and shape from the first value.
    pub(crate) fn learn(&mut self, writer_id: u64, index: usize, rows: &Rows<'_>) {
        if self.spec.is_none() {
            let (dtype, shape) = (rows.dtype(), Shape::from(rows.cell_dims()));
            let path = Arc::clone(&self.name.path);
            self.spec = Some(Arc::new(CellSpec::new(writer_id, index, path, dtype, shape)));
        }
    }

    /// Records where cells are stored.
    pub(crate) fn push(&mut self, position: u64, rows: u32, chunk: &ChunkRef, offset: u32) {
        self.cells.push(position, rows, chunk, offset);
        self.trim();
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

    /// Drops all cells. Positions restart at 0.
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.note_oldest();
    }

    /// Returns whether the chunk length is tuned and more than one chunk length is possible.
    pub(crate) fn is_tuned(&self) -> bool {
        matches!(self.length, ChunkLength::AutoTuned { num_keep_alive_refs, .. } if num_keep_alive_refs > 1)
    }

    /// Replaces the chunk length, which is only allowed while no cell is buffered. The column joins another group when
    /// its next value is appended.
    pub(crate) fn configure(&mut self, length: ChunkLength) {
        self.length = length;
        self.membership = None;
        self.trim();
    }
}
