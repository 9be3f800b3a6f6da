//! References to steps that do not keep them.

use std::sync::{Arc, Weak};

use smallvec::smallvec;

use crate::chunks::{ChunkRef, ChunkSlot};
use crate::columns::{CellSpec, Column, Run};

/// What a history knows of one step of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellState {
    /// It is kept, so that items can refer to it.
    Present,
    /// Nothing was appended to the column at this step.
    Missing,
    /// It was appended, but is no longer kept.
    Expired,
}

/// A step of a column that the history may drop: it expires as soon as the history does.
#[derive(Debug, Clone)]
pub struct WeakCell {
    pub(super) spec: Arc<CellSpec>,
    pub(super) chunk: Weak<ChunkSlot>,
    /// Which tensor of the chunk.
    pub(super) index: u32,
    pub(super) offset: u32,
    /// Its place among all cells that the column ever had.
    pub(super) number: u64,
}

impl WeakCell {
    /// The step as a squeezed column, which keeps it; none if it has expired.
    pub fn upgrade(&self) -> Option<Column> {
        let chunk = ChunkRef::revive(&self.chunk, self.index).filter(|_| self.spec.keeps(self.number))?;
        let runs = smallvec![Run { chunk, offset: self.offset, length: 1 }];
        Some(Column::new(Arc::clone(&self.spec), runs, true))
    }

    /// Whether the history has dropped the step.
    pub fn is_expired(&self) -> bool {
        !self.spec.keeps(self.number) || self.chunk.strong_count() == 0
    }
}
