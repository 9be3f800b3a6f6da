//! What a writer remembers of the steps it was given: one list of cells per column, sliced like a Python list but
//! without its silent answers.

use std::ops::{Range, RangeBounds};
use std::sync::{Arc, Weak};

use relive_connection::{Error, ErrorKind, Result};
use smallvec::smallvec;

use crate::chunks::{ChunkRef, ChunkSlot};
use crate::columns::{
    CellSpec, Column, ColumnState, IndexError, Recorder, Run, Runs, push_run, resolve, resolve_range,
};

/// What a writer remembers: for every column the steps since the history was last cleared.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    recorder: &'a Recorder,
}

impl<'a> History<'a> {
    pub(crate) fn new(recorder: &'a Recorder) -> History<'a> {
        History { recorder }
    }

    /// Steps since the history was last cleared, a step still open included.
    pub fn len(&self) -> u64 {
        self.recorder.history_len()
    }

    /// Whether no step was appended since the history was last cleared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Paths of all columns, in the order of their first appearance.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.recorder.columns().iter().map(ColumnState::path)
    }

    /// The column at `path`: the parts of its place in the step joined by `/`, as in `observation/image`; positions in
    /// lists and tuples are numbers. A step that is a single tensor has the path `""`.
    ///
    /// # Errors
    /// `NotFound` for a path that no step had yet; the error lists those there are.
    pub fn column(&self, path: &str) -> Result<ColumnHistory<'a>> {
        let found = self.recorder.columns().iter().find(|column| column.path() == path);
        found.map(|column| self.view(column)).ok_or_else(|| {
            let known: Vec<&str> = self.paths().collect();
            Error::new(ErrorKind::NotFound, format!("there is no column {path:?}; the columns are {known:?}"))
        })
    }

    /// The column number `index`, in the order of first appearance: for steps that always look alike, the position in
    /// the flattened step.
    ///
    /// # Errors
    /// `NotFound` when there are not that many columns.
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

/// The steps of one column. Positions count from 0 at the first step since the history was cleared; negative ones count
/// from the end.
#[derive(Debug, Clone, Copy)]
pub struct ColumnHistory<'a> {
    column: &'a ColumnState,
    len: u64,
}

impl ColumnHistory<'_> {
    /// Steps since the history was last cleared, whether or not this column was part of them and is still kept.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no step was appended since the history was last cleared.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The steps of `range` along a leading dimension, for example `-3..`.
    ///
    /// # Errors
    /// `InvalidArgument` when the range leaves the history, is empty, or contains a step that is no longer kept or
    /// that had nothing for this column.
    pub fn slice(&self, range: impl RangeBounds<i64>) -> Result<Column> {
        self.strided(range, 1)
    }

    /// Every `stride`th step of `range`, beginning with its first.
    ///
    /// # Errors
    /// As [`slice`](Self::slice), and for a stride of 0.
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

    /// The steps at `positions`, in that order; repeats are allowed.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
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

    /// The single step at `position`, without a leading dimension; -1 is the newest.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn step(&self, position: i64) -> Result<Column> {
        let runs = resolve(position, self.len).and_then(|at| {
            let mut runs = Runs::new();
            self.add(at..at + 1, &mut runs)?;
            Ok(runs)
        });
        self.column(runs, true)
    }

    /// What is known of the step at `position`.
    ///
    /// # Errors
    /// `InvalidArgument` for a position outside of the history.
    pub fn cell_state(&self, position: i64) -> Result<CellState> {
        match resolve(position, self.len).and_then(|at| self.column.cells().find(at)) {
            Ok(_) => Ok(CellState::Present),
            Err(IndexError::Missing { .. }) => Ok(CellState::Missing),
            Err(IndexError::Expired { .. }) => Ok(CellState::Expired),
            Err(error) => Err(self.error(error)),
        }
    }

    /// The single step at `position`, without keeping it.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
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

/// The error of a column that has not what was asked for.
pub(crate) fn column_error(path: &str, error: IndexError) -> Error {
    Error::with_source(ErrorKind::InvalidArgument, format!("column {path:?}: {error}"), error)
}

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
    spec: Arc<CellSpec>,
    chunk: Weak<ChunkSlot>,
    /// Which tensor of the chunk.
    index: u32,
    offset: u32,
    /// Its place among all cells that the column ever had.
    number: u64,
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
