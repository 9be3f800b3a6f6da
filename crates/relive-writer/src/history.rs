//! A writer's history, with one list of cells per column. The lists are sliced like Python lists, except that indices
//! that are out of range cause errors.

use std::ops::{Range, RangeBounds};
use std::sync::{Arc, Weak};

use relive_connection::{Error, ErrorKind, Result};
use smallvec::smallvec;

use crate::chunks::{ChunkRef, ChunkSlot};
use crate::columns::{
    CellSpec, Column, ColumnState, IndexError, Recorder, Run, Runs, push_run, resolve, resolve_range,
};

/// A writer's history: for every column, the steps since the history was last cleared.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    recorder: &'a Recorder,
}

impl<'a> History<'a> {
    pub(crate) fn new(recorder: &'a Recorder) -> History<'a> {
        History { recorder }
    }

    /// Returns the number of steps since the history was last cleared, including an open step.
    pub fn len(&self) -> u64 {
        self.recorder.history_len()
    }

    /// Returns whether no step has been appended since the history was last cleared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the paths of all columns, in the order of first appearance.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.recorder.columns().iter().map(ColumnState::path)
    }

    /// Returns the column at `path`: keys joined by `/`, as in `observation/image`. Positions in lists and tuples are
    /// numbers. A step that is a single tensor has the path `""`.
    ///
    /// # Errors
    /// `NotFound` for a path that has not occurred in any step. The error lists the known paths.
    pub fn column(&self, path: &str) -> Result<ColumnHistory<'a>> {
        let found = self.recorder.columns().iter().find(|column| column.path() == path);
        found.map(|column| self.view(column)).ok_or_else(|| {
            let known: Vec<&str> = self.paths().collect();
            Error::new(ErrorKind::NotFound, format!("there is no column {path:?}; the columns are {known:?}"))
        })
    }

    /// Returns column number `index`, in the order of first appearance. If all steps have the same structure, this is
    /// the position in the flattened step.
    ///
    /// # Errors
    /// `NotFound` if there are not that many columns.
    pub fn column_at(&self, index: usize) -> Result<ColumnHistory<'a>> {
        let columns = self.recorder.columns();
        columns.get(index).map(|column| self.view(column)).ok_or_else(|| {
            let message = format!("there is no column number {index}; there are {}", columns.len());
            Error::new(ErrorKind::NotFound, message)
        })
    }

    fn view(&self, column: &'a ColumnState) -> ColumnHistory<'a> {
        ColumnHistory { column, len: self.len() }
    }
}

/// The history of one column. Positions count from 0 at the first step since the history was cleared; negative
/// positions count from the end.
#[derive(Debug, Clone, Copy)]
pub struct ColumnHistory<'a> {
    column: &'a ColumnState,
    len: u64,
}

impl ColumnHistory<'_> {
    /// Returns the number of steps since the history was last cleared, including steps without a value of this column
    /// and steps that are no longer kept.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether no step has been appended since the history was last cleared.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the steps of `range`, for example `-3..`, along a leading dimension.
    ///
    /// # Errors
    /// `InvalidArgument` if the range is empty, exceeds the history, or contains a step that is no longer kept or has
    /// no value of this column.
    pub fn slice(&self, range: impl RangeBounds<i64>) -> Result<Column> {
        self.strided(range, 1)
    }

    /// Returns every `stride`th step of `range`, beginning with its first.
    ///
    /// # Errors
    /// The errors of [`slice`](Self::slice), and `InvalidArgument` for a stride of 0.
    pub fn strided(&self, range: impl RangeBounds<i64>, stride: usize) -> Result<Column> {
        let stride = if stride == 0 { Err(IndexError::Stride) } else { Ok(stride) };
        let runs = stride.and_then(|stride| {
            let range = resolve_range(&range, self.len)?;
            let mut runs = Runs::new();
            if stride == 1 {
                self.add(range, &mut runs)?;
            } else {
                range.step_by(stride).try_for_each(|at| self.add(at..at + 1, &mut runs))?;
            }
            Ok(runs)
        });
        self.column(runs, false)
    }

    /// Returns the steps at `positions`, in that order; repeats are allowed.
    ///
    /// # Errors
    /// The errors of [`slice`](Self::slice).
    pub fn rows(&self, positions: &[i64]) -> Result<Column> {
        let first = if positions.is_empty() {
            Err(IndexError::Empty { start: 0, stop: 0, len: self.len })
        } else {
            Ok(())
        };
        let runs = first.and_then(|()| {
            let mut runs = Runs::new();
            for &position in positions {
                let at = resolve(position, self.len)?;
                self.add(at..at + 1, &mut runs)?;
            }
            Ok(runs)
        });
        self.column(runs, false)
    }

    /// Returns the step at `position` without a leading dimension; -1 is the newest.
    ///
    /// # Errors
    /// The errors of [`slice`](Self::slice).
    pub fn step(&self, position: i64) -> Result<Column> {
        let runs = resolve(position, self.len).and_then(|at| {
            let mut runs = Runs::new();
            self.add(at..at + 1, &mut runs)?;
            Ok(runs)
        });
        self.column(runs, true)
    }

    /// Returns the state of the step at `position`.
    ///
    /// # Errors
    /// `InvalidArgument` for a position outside the history.
    pub fn cell_state(&self, position: i64) -> Result<CellState> {
        match resolve(position, self.len).and_then(|at| self.column.cells().find(at)) {
            Ok(_) => Ok(CellState::Present),
            Err(IndexError::Missing { .. }) => Ok(CellState::Missing),
            Err(IndexError::Expired { .. }) => Ok(CellState::Expired),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Returns a weak reference to the step at `position`.
    ///
    /// # Errors
    /// The errors of [`slice`](Self::slice).
    pub fn weak_cell(&self, position: i64) -> Result<WeakCell> {
        let found = resolve(position, self.len).and_then(|at| self.column.cells().find(at));
        let found = found.and_then(|cell| Ok((cell, self.spec()?)));
        let (cell, spec) = found.map_err(|error| self.error(error))?;
        let (chunk, index) = (Arc::downgrade(cell.chunk.slot()), cell.chunk.index());
        Ok(WeakCell { spec: Arc::clone(spec), chunk, index, offset: cell.offset, number: cell.number })
    }

    fn add(&self, range: Range<u64>, runs: &mut Runs) -> Result<(), IndexError> {
        self.column.cells().visit(range, |chunk, offset, length| push_run(runs, chunk, offset, length))
    }

    fn spec(&self) -> Result<&Arc<CellSpec>, IndexError> {
        self.column.spec().ok_or(IndexError::Missing { step: 0 })
    }

    fn column(&self, runs: Result<Runs, IndexError>, squeeze: bool) -> Result<Column> {
        let described = runs.and_then(|runs| Ok((self.spec()?, runs)));
        let column = described.map(|(spec, runs)| Column::new(Arc::clone(spec), runs, squeeze));
        column.map_err(|error| self.error(error))
    }

    fn error(&self, error: IndexError) -> Error {
        column_error(self.column.path(), error)
    }
}

/// Returns the error for an invalid index of a column.
pub(crate) fn column_error(path: &str, error: IndexError) -> Error {
    Error::with_source(ErrorKind::InvalidArgument, format!("column {path:?}: {error}"), error)
}

/// The state of one step of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellState {
    /// The value is kept: items can refer to it.
    Present,
    /// Nothing was appended to the column at this step.
    Missing,
    /// The value was appended, but is no longer kept.
    Expired,
}

/// A weak reference to a step of a column. It expires when the history drops the step.
#[derive(Debug, Clone)]
pub struct WeakCell {
    spec: Arc<CellSpec>,
    chunk: Weak<ChunkSlot>,
    /// The index of the tensor in the chunk.
    index: u32,
    offset: u32,
    /// The cell's number, counted from the column's first cell.
    number: u64,
}

impl WeakCell {
    /// Returns the step as a squeezed column, which keeps the step alive, or `None` if the step has expired.
    pub fn upgrade(&self) -> Option<Column> {
        let chunk = ChunkRef::upgrade(&self.chunk, self.index).filter(|_| self.spec.keeps(self.number))?;
        let runs = smallvec![Run { chunk, offset: self.offset, length: 1 }];
        Some(Column::new(Arc::clone(&self.spec), runs, true))
    }

    /// Returns whether the history has dropped the step.
    pub fn is_expired(&self) -> bool {
        !self.spec.keeps(self.number) || self.chunk.strong_count() == 0
    }
}
