//! The steps of a writer's column, indexed and sliced like a list.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::MutexGuard;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString, PyTuple};
use relive_client::{Column, ErrorKind};

use super::writer_state::{Shared, State};
use crate::error::{OrRaise, raise, raise_kind};
use crate::nests::column::{
    CellRef, ColumnPath, Data, MAX_SHOWN_CELLS, TrajectoryColumn, bad_index, none_in_column,
};

/// The steps of one column of a writer since its history was last cleared.
#[pyclass(frozen, module = "relive._native", name = "ColumnHistory")]
pub(crate) struct ColumnHistory {
    pub(crate) shared: Arc<Shared>,
    /// As in the writer's state when this history was created.
    pub(crate) forgotten: u64,
    pub(crate) column: usize,
    pub(crate) path: Py<PyTuple>,
}

#[pymethods]
impl ColumnHistory {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.state(py)?.history_len())
    }

    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<TrajectoryColumn> {
        let state = self.state(py)?;
        let history = state.writer(py)?.history().column_at(self.column).or_raise(py)?;
        let len = state.history_len().cast_signed();
        let steps = Steps::of(index, len)?;
        let path = ColumnPath::Step { of: self.path.clone_ref(py), key: index.clone().unbind() };
        let made = match &steps {
            Steps::None => None,
            _ if steps.first() < 0 => {
                let help = before_first(steps.first().saturating_sub(len as i64), len);
                return Err(none_in_column(py, &path, &steps.cells(&history), &help));
            }
            Steps::One(step) => Some(history.step(*step)),
            Steps::Range(range) => Some(history.slice(range.clone())),
            Steps::Many(steps) => Some(history.rows(steps)),
        };
        let made = match made.transpose() {
            Ok(made) => made,
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                return Err(none_in_column(py, &path, &steps.cells(&history), &error.to_string()));
            }
            Err(error) => return Err(raise(py, &error)),
        };
        drop(state);
        let squeeze = made.as_ref().is_some_and(Column::is_squeezed);
        let data = made.map_or(Data::Empty, Data::Own);
        Ok(TrajectoryColumn { data, squeeze, path })
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.state(py)?;
        let history = state.writer(py)?.history().column_at(self.column).or_raise(py)?;
        let len = i64::try_from(state.history_len()).unwrap_or(i64::MAX);
        let cells = (0..len).map(|at| history.step(at).ok().map(|column| CellRef { column }));
        PyList::new(py, cells.collect::<Vec<_>>())?.into_any().try_iter().map(Bound::into_any)
    }

    /// Returns the column's path within a step. It is a method, as in dm-reverb.
    fn path(&self, py: Python<'_>) -> Py<PyTuple> {
        self.path.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("_ColumnHistory(path={}, len={})", self.path.bind(py), self.__len__(py)?))
    }
}

impl ColumnHistory {
    fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let state = self.shared.lock(py)?;
        if state.forgotten != self.forgotten {
            let text = "the writer has forgotten this column; read writer.history again".to_owned();
            return Err(raise_kind(py, ErrorKind::FailedPrecondition, text));
        }
        Ok(state)
    }
}

/// The steps that a key of a history selects, as positions from its first step.
enum Steps {
    None,
    One(i64),
    Range(Range<i64>),
    Many(Vec<i64>),
}

impl Steps {
    /// Unlike a slice of a list, this slice is not cut off at the first step, because a column that is shorter than
    /// requested would be unexpected.
    fn of(key: &Bound<'_, PyAny>, len: isize) -> PyResult<Steps> {
        if let Ok(slice) = key.cast::<PySlice>() {
            return Steps::of_slice(slice, len);
        }
        if let Ok(list) = key.cast::<PyList>() {
            let keys: Vec<isize> = list.extract().map_err(|_| bad_index("_ColumnHistory", key))?;
            let steps = keys.iter().map(|&key| step_of(key, len)).collect::<PyResult<Vec<_>>>()?;
            return Ok(if steps.is_empty() { Steps::None } else { Steps::Many(steps) });
        }
        let key: isize = key.extract().map_err(|_| bad_index("_ColumnHistory", key))?;
        step_of(key, len).map(Steps::One)
    }

    fn of_slice(slice: &Bound<'_, PySlice>, len: isize) -> PyResult<Steps> {
        // The rules for lists give the same result unless they cut the slice off at the first step, and they are faster
        // to apply.
        if let Ok(cut) = slice.indices(len)
            && cut.step == 1
            && cut.start > 0
        {
            let steps = cut.start as i64..cut.stop as i64;
            return Ok(if steps.is_empty() { Steps::None } else { Steps::Range(steps) });
        }
        let py = slice.py();
        let part = |name: &Bound<'_, PyString>| {
            slice.getattr(name)?.extract::<Option<isize>>().map_err(|_| bad_index("_ColumnHistory", slice))
        };
        let (start, stop) = (part(intern!(py, "start"))?, part(intern!(py, "stop"))?);
        let stride = part(intern!(py, "step"))?.unwrap_or(1);
        let position = |at: isize| if at < 0 { at.saturating_add(len) } else { at };
        if stride == 0 {
            return Err(PyValueError::new_err("slice step cannot be zero"));
        }
        let (start, stop) = if stride < 0 {
            (start.map_or(len - 1, |at| position(at).min(len - 1)), stop.map_or(-1, position))
        } else {
            (start.map_or(0, position), stop.map_or(len, |at| position(at).min(len)))
        };
        let span = if stride < 0 { start.saturating_sub(stop) } else { stop.saturating_sub(start) };
        let count = span.max(0);
        let count = count.unsigned_abs().div_ceil(stride.unsigned_abs());
        if count == 0 {
            return Ok(Steps::None);
        }
        if stride == 1 {
            return Ok(Steps::Range(start as i64..stop as i64));
        }
        // A slice that begins far before the first step is refused because of its earliest step, so its other steps
        // need not be listed.
        let count = count.min(len.unsigned_abs().saturating_add(1));
        Ok(Steps::Many((0..count).map(|index| (start + stride * index.cast_signed()) as i64).collect()))
    }

    /// Returns the earliest step; negative if it is before the history.
    fn first(&self) -> i64 {
        match self {
            Steps::None => 0,
            Steps::One(step) => *step,
            Steps::Range(range) => range.start,
            Steps::Many(steps) => steps.iter().copied().min().unwrap_or(0),
        }
    }

    /// Returns the existing steps, and `None` for missing ones, but no more of them than an error shows.
    fn cells(&self, history: &relive_client::ColumnHistory<'_>) -> Vec<Option<CellRef>> {
        let cell = |step: i64| {
            let column = (step >= 0).then(|| history.step(step).ok()).flatten();
            column.map(|column| CellRef { column })
        };
        match self {
            Steps::None => Vec::new(),
            Steps::One(step) => vec![cell(*step)],
            Steps::Range(range) => range.clone().take(MAX_SHOWN_CELLS).map(cell).collect(),
            Steps::Many(steps) => steps.iter().take(MAX_SHOWN_CELLS).copied().map(cell).collect(),
        }
    }
}

/// Returns the position of step `key`, counted from the newest if it is negative; a negative result is before the
/// history.
fn step_of(key: isize, len: isize) -> PyResult<i64> {
    match if key < 0 { key.saturating_add(len) } else { key } {
        at if at >= len => Err(PyIndexError::new_err(format!(
            "list index out of range: step {key} of a history of {len} steps"
        ))),
        at => Ok(at as i64),
    }
}

fn before_first(key: i64, len: isize) -> String {
    format!(
        "step {key} is before the first of the {len} steps in the history, so it is None; an item cannot contain it"
    )
}
