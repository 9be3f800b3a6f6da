//! A column of an item: cells of one history column, in any order, with or without repeats.

use std::sync::Arc;

use relive_tensor::{DType, Shape, Tensor};
use smallvec::SmallVec;

use crate::writer::ChunkRef;

/// One value of one column: a row of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) chunk: ChunkRef,
    pub(crate) offset: u32,
}

/// What every value of a column looks like; fixed by the first one.
#[derive(Debug, Clone)]
pub(crate) struct CellSpec {
    /// The writer that the column belongs to.
    pub(crate) writer_id: u64,
    /// Its number in that writer.
    pub(crate) index: usize,
    /// Where the column is in the step, parts joined by `/`.
    pub(crate) path: Arc<str>,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

impl CellSpec {
    pub(crate) fn accepts(&self, value: &Tensor) -> bool {
        self.dtype == value.dtype() && self.shape == *value.shape()
    }
}

/// A column of an item to be: references to steps of one column of the history.
///
/// It keeps what it refers to alive, also when the history drops those steps. Its data has the shape `[len, ..cell]`,
/// or just `[..cell]` when squeezed.
#[derive(Debug, Clone)]
pub struct Column {
    spec: Arc<CellSpec>,
    cells: SmallVec<[Cell; 1]>,
    squeeze: bool,
}

impl Column {
    pub(crate) fn new(spec: Arc<CellSpec>, cells: SmallVec<[Cell; 1]>, squeeze: bool) -> Column {
        Column { spec, cells, squeeze }
    }

    /// Number of steps referred to; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a column is never empty")]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether the leading dimension is dropped.
    pub fn is_squeezed(&self) -> bool {
        self.squeeze
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Shape of one step's value.
    pub fn cell_shape(&self) -> &Shape {
        &self.spec.shape
    }

    /// Shape of the column's data: `[len, ..cell]`, or `[..cell]` when squeezed.
    pub fn shape(&self) -> Shape {
        let rows = (!self.squeeze).then(|| u32::try_from(self.len()).unwrap_or(u32::MAX));
        rows.into_iter().chain(self.spec.shape.dims().iter().copied()).collect()
    }

    /// Where the column comes from: the path in the step, parts joined by `/`.
    pub fn path(&self) -> &str {
        &self.spec.path
    }

    pub(crate) fn writer_id(&self) -> u64 {
        self.spec.writer_id
    }

    pub(crate) fn index(&self) -> usize {
        self.spec.index
    }

    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }
}
