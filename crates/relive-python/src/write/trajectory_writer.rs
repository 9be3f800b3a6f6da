//! The trajectory writer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::MutexGuard;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relive_client::{Client, Column, Error, TrajectoryWriter as RustWriter, Windows};
use relive_tensor::Rows;
use smallvec::SmallVec;

use super::append_error::{fitted, raise_append};
use super::column_history::ColumnHistory;
use super::layout::{Layout, Leaves, Lists};
use super::writer_state::{Shared, State, closed};
use crate::arguments::{Length, Priority};
use crate::arrays::array::{self, Value};
use crate::error::OrRaise;
use crate::interpreter::fork::Origin;
use crate::interpreter::lock::{Brief, Exclusive};
use crate::interpreter::wait::{self, Operation};
use crate::nests::column::TrajectoryColumn;
use crate::nests::nest;
use crate::nests::place::at_path;
use crate::nests::structure;

/// The writers of this process, some of which may be gone.
static OPEN: Brief<Vec<Weak<Shared>>> = Brief::new(Vec::new());

/// Closes the open writers when the process ends, so that the log reports their unsent items.
#[pyfunction]
pub(crate) fn end_writers(py: Python<'_>) {
    let open = OPEN.take();
    for shared in open.iter().filter_map(Weak::upgrade) {
        let Ok(mut state) = shared.state.lock() else { continue };
        let ended = if state.origin.is_foreign() { None } else { state.writer.take() };
        drop(state);
        py.detach(|| drop(ended));
    }
}

/// Writes steps and creates items that refer to them.
#[pyclass(frozen, subclass, module = "relive._native", name = "TrajectoryWriter")]
pub(crate) struct TrajectoryWriter {
    shared: Arc<Shared>,
    /// The history as a Python object, which is valid until a step has new places.
    history: Brief<Option<Arc<Py<PyAny>>>>,
}

type Values<'py> = SmallVec<[(usize, Value<'py>); 8]>;
type Cells<'a> = SmallVec<[(usize, Rows<'a>); 8]>;

/// Whether data is one step, a part of a step, or several steps.
#[derive(Clone, Copy, PartialEq)]
enum DataKind {
    Step { partial: bool },
    Sequence,
}

/// A flag for which any object is accepted, as by Python's `if`.
#[derive(Clone, Copy)]
struct Truth(bool);

impl<'py> FromPyObject<'_, 'py> for Truth {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.is_truthy().map(Truth)
    }
}

impl TrajectoryWriter {
    pub(crate) fn over(
        client: Client,
        writer: RustWriter,
        limit: Duration,
        as_reverb: bool,
    ) -> TrajectoryWriter {
        let layout = Layout::new(if as_reverb { Lists::Nests } else { Lists::Arrays });
        let origin = Origin::here();
        let state = State { writer: Some(writer), layout, forgotten: 0, client, limit, origin, as_reverb };
        let shared = Arc::new(Shared { state: Exclusive::new(state) });
        OPEN.with(|open| {
            if open.len() == open.capacity() {
                open.retain(|writer| writer.strong_count() > 0);
            }
            open.push(Arc::downgrade(&shared));
        });
        TrajectoryWriter { shared, history: Brief::new(None) }
    }

    fn append_as(&self, data: &Bound<'_, PyAny>, given: DataKind) -> PyResult<()> {
        let py = data.py();
        let mut state = self.shared.lock(py)?;
        state.writer(py)?;
        if data.is_none() && !state.as_reverb {
            return Err(PyTypeError::new_err(
                "append: the step is None; only a column of a step may be None",
            ));
        }
        let (leaves, grown) = state.place(data)?;
        self.append_leaves(py, state, &leaves, grown, given)
    }

    /// Appends leaves by column; `grown` is the layout with the new places of the step.
    fn append_leaves(
        &self,
        py: Python<'_>,
        mut state: MutexGuard<'_, State>,
        leaves: &Leaves<'_>,
        grown: Option<Layout>,
        given: DataKind,
    ) -> PyResult<()> {
        let as_reverb = state.as_reverb;
        let paths = grown.as_ref().unwrap_or(&state.layout).paths();
        let mut values = Values::with_capacity(leaves.len());
        for (column, leaf) in leaves {
            let value = Value::of(leaf).map_err(|error| match paths.get(*column) {
                Some(path) => at_path(error, path.parts.bind(py)),
                None => error,
            })?;
            values.push((*column, value));
        }
        let cells = given.cells(&values)?;
        let cells = cells.map_err(|column| {
            let error = state.writer(py).map(|writer| writer.without_steps(column));
            error.map_or_else(|closed| closed, |error| raise_append(py, &error, paths, leaves, as_reverb))
        })?;
        let Some(grown) = grown else {
            let Err(error) = given.store(state.writer_mut(py)?, &cells) else { return Ok(()) };
            return match given.fitted(&error, leaves, as_reverb)? {
                Some(fitted) => self.append_leaves(py, state, &fitted, None, given),
                None => Err(raise_append(py, &error, state.layout.paths(), leaves, as_reverb)),
            };
        };
        let known = state.layout.paths().len();
        let new: Vec<Arc<str>> =
            grown.paths().iter().skip(known).map(|path| Arc::from(path.text.as_str())).collect();
        let writer = state.writer_mut(py)?;
        if let Err(error) = given.check(writer, &cells) {
            return match given.fitted(&error, leaves, as_reverb)? {
                Some(fitted) => self.append_leaves(py, state, &fitted, Some(grown), given),
                None => Err(raise_append(py, &error, grown.paths(), leaves, as_reverb)),
            };
        }
        writer.add_columns(&new).or_raise(py)?;
        // Dropping the replaced values may run Python code, so they are dropped after all locks are released.
        let old = (std::mem::replace(&mut state.layout, grown), self.history.take());
        let stored = given.store(state.writer_mut(py)?, &cells);
        let stored =
            stored.map_err(|error| raise_append(py, &error, state.layout.paths(), leaves, as_reverb));
        drop(state);
        drop(old);
        stored
    }

    /// Returns the columns of an item, checked to belong to a writer.
    fn columns(trajectory: &Bound<'_, PyAny>) -> PyResult<Vec<Column>> {
        nest::leaves(trajectory)?.iter().map(column_of).collect()
    }

    /// Returns a timeout in milliseconds with dm-reverb's meaning: `None`, 0 and negative values wait forever, unless
    /// the client has its own limit.
    fn timeout(limit: Duration, timeout_ms: Option<i64>) -> Duration {
        match timeout_ms {
            None => limit,
            Some(0) => wait::FOREVER,
            Some(ms) => u64::try_from(ms).map_or(wait::FOREVER, Duration::from_millis),
        }
    }
}

impl DataKind {
    /// Returns the values as rows: one row for each value, or as many as its leading dimension. The error is the number
    /// of a column without a leading dimension.
    fn cells<'a>(self, values: &'a Values<'_>) -> PyResult<Result<Cells<'a>, usize>> {
        let mut cells = Cells::with_capacity(values.len());
        for (column, value) in values {
            let rows = match self {
                DataKind::Step { .. } => Some(value.step()?),
                DataKind::Sequence => value.steps()?,
            };
            let Some(rows) = rows else { return Ok(Err(*column)) };
            cells.push((*column, rows));
        }
        Ok(Ok(cells))
    }

    fn check(self, writer: &mut RustWriter, cells: &Cells<'_>) -> relive_client::Result<()> {
        match self {
            DataKind::Step { .. } => writer.check_cells(cells),
            DataKind::Sequence => writer.check_sequence_cells(cells),
        }
    }

    /// Returns the leaves of a refused step with one of Python's numbers in its column's type, or `None` if this is not
    /// the way to mend the step. dm-reverb converts no numbers.
    fn fitted<'py>(
        self,
        error: &Error,
        leaves: &Leaves<'py>,
        as_reverb: bool,
    ) -> PyResult<Option<Leaves<'py>>> {
        if as_reverb || self == DataKind::Sequence {
            return Ok(None);
        }
        let value_of = |column| leaves.iter().find(|(at, _)| *at == column).map(|(_, leaf)| leaf.clone());
        let Some((column, number)) = fitted(error, value_of)? else { return Ok(None) };
        let mend = |(at, leaf): &(usize, Bound<'py, PyAny>)| {
            (*at, if *at == column { number.clone() } else { leaf.clone() })
        };
        Ok(Some(leaves.iter().map(mend).collect()))
    }

    fn store(self, writer: &mut RustWriter, cells: &Cells<'_>) -> relive_client::Result<()> {
        match self {
            DataKind::Step { partial } => writer.append_cells(cells, partial),
            DataKind::Sequence => writer.append_sequence_cells(cells),
        }
    }
}

fn column_of(leaf: &Bound<'_, PyAny>) -> PyResult<Column> {
    let Ok(column) = leaf.cast::<TrajectoryColumn>() else {
        return Err(PyTypeError::new_err(format!(
            "the leaves of an item's trajectory must be TrajectoryColumns from writer.history, but one is a {}",
            leaf.get_type()
        )));
    };
    let column = column.get();
    column.own().cloned().ok_or_else(|| {
        let why = if column.is_empty() { "has no steps" } else { "does not refer to this writer's history" };
        PyValueError::new_err(format!("the column at {} {why}", column.path_text(leaf.py())))
    })
}

#[pymethods]
impl TrajectoryWriter {
    /// Appends a step or, with `partial_step`, a part of a step.
    #[pyo3(signature = (data, *, partial_step = Truth(false)), text_signature = "($self, data, *, partial_step=False)")]
    fn append(&self, data: &Bound<'_, PyAny>, partial_step: Truth) -> PyResult<()> {
        self.append_as(data, DataKind::Step { partial: partial_step.0 })
    }

    /// Appends as many steps as the leading dimension of the leaves.
    fn append_sequence(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.append_as(data, DataKind::Sequence)
    }

    /// Returns a column for each leaf, in the structure of the steps.
    #[getter]
    fn history(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(history) = self.history.get() {
            return Ok(history.clone_ref(py));
        }
        let state = self.shared.lock(py)?;
        if state.layout.is_empty() {
            return Err(PyRuntimeError::new_err("the history has no structure before the first append"));
        }
        let history = state.layout.map(py, &mut |column| {
            let path = state.layout.paths().get(column).map(|path| path.parts.clone_ref(py));
            let path = path.unwrap_or_else(|| PyTuple::empty(py).unbind());
            let (shared, forgotten) = (Arc::clone(&self.shared), state.forgotten);
            let column = ColumnHistory { shared, forgotten, column, path };
            Ok(Bound::new(py, column)?.into_any())
        })?;
        drop(state);
        self.history.replace(Some(Arc::new(history.clone().unbind())));
        Ok(history.unbind())
    }

    #[getter]
    fn episode_steps(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.shared.lock(py)?.writer(py)?.episode_steps())
    }

    #[getter]
    fn step_is_open(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.shared.lock(py)?.writer(py)?.step_is_open())
    }

    /// Returns the number of items that the server has not confirmed.
    #[getter]
    fn pending_items(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.shared.lock(py)?.writer.as_ref().map_or(0, RustWriter::pending_items))
    }

    /// Creates an item and returns its key.
    fn create_item(&self, table: &str, priority: Priority, trajectory: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (py, priority) = (trajectory.py(), priority.0);
        let columns = Self::columns(trajectory)?;
        let mut state = self.shared.lock(py)?;
        let State { writer, client, .. } = &mut *state;
        let writer = writer.as_mut().ok_or_else(|| closed(py))?;
        let why = || wait::reason_of(client, table, Operation::Insert);
        while !structure::agree_on_columns(writer, table, trajectory)? {
            wait::wait_because(py, "create_item", writer.wait_until_ready(table), why)?.or_raise(py)?;
        }
        let columns = columns.into();
        if let Some(key) = writer.try_create_item(table, priority, &columns).or_raise(py)? {
            return Ok(key);
        }
        wait::wait_because(py, "create_item", writer.create_item(table, priority, columns), why)?.or_raise(py)
    }

    /// Creates an item for each of `trajectories`, with one priority each, and returns their keys.
    fn create_items<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        priorities: &Bound<'py, PyAny>,
        trajectories: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let trajectories = trajectories.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let priorities = array::priorities(priorities, trajectories.len())?;
        let columns = trajectories
            .iter()
            .map(|trajectory| Ok(Self::columns(trajectory)?.into()))
            .collect::<PyResult<Vec<_>>>()?;
        let mut state = self.shared.lock(py)?;
        let State { writer, client, .. } = &mut *state;
        let writer = writer.as_mut().ok_or_else(|| closed(py))?;
        let why = || wait::reason_of(client, table, Operation::Insert);
        for trajectory in &trajectories {
            while !structure::agree_on_columns(writer, table, trajectory)? {
                wait::wait_because(py, "create_items", writer.wait_until_ready(table), why)?.or_raise(py)?;
            }
        }
        let made = match writer.try_create_items(table, &priorities, &columns).or_raise(py)? {
            Some(keys) => keys,
            None => {
                let items = writer.create_items(table, &priorities, &columns);
                wait::wait_because(py, "create_items", items, why)?.or_raise(py)?
            }
        };
        array::from_keys(py, &made)
    }

    /// Creates an item from all columns for each step in `ends`; each item has the `length` steps that end with that
    /// step.
    #[pyo3(signature = (table, priorities, ends, *, length = Length(1), squeeze = false),
           text_signature = "($self, table, priorities, ends, *, length=1, squeeze=False)")]
    fn create_window_items<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        priorities: &Bound<'py, PyAny>,
        ends: &Bound<'py, PyAny>,
        length: Length,
        squeeze: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ends = array::integers("ends", ends)?;
        let priorities = array::priorities(priorities, ends.len())?;
        let windows = match (squeeze, length.0) {
            (false, length) => Windows::of(length, &ends),
            (true, 1) => Windows::steps(&ends),
            (true, length) => {
                let message = format!("only windows of one step can be squeezed, got length {length}");
                return Err(PyValueError::new_err(message));
            }
        };
        let made =
            self.shared.lock(py)?.make_windows(py, "create_window_items", table, &priorities, windows)?;
        array::from_keys(py, &made)
    }

    /// Appends a step, creates an item from it, and returns the item's key.
    fn append_item(&self, table: &str, priority: Priority, data: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let py = data.py();
        self.append_as(data, DataKind::Step { partial: false })?;
        let newest = Windows::steps(&[-1]);
        let made = self.shared.lock(py)?.make_windows(py, "append_item", table, &[priority.0], newest)?;
        Ok(made.first().copied())
    }

    /// Waits until at most `block_until_num_items` items are unconfirmed.
    #[pyo3(signature = (block_until_num_items = 0, timeout_ms = None))]
    fn flush(&self, py: Python<'_>, block_until_num_items: i64, timeout_ms: Option<i64>) -> PyResult<()> {
        let items = items_left(block_until_num_items)?;
        let mut state = self.shared.lock(py)?;
        let timeout = Self::timeout(state.limit, timeout_ms);
        let writer = state.writer_mut(py)?;
        wait::now_or_wait(py, "flush", writer.flush_until(items, timeout), wait::unconfirmed)?.or_raise(py)
    }

    /// Waits until all items are confirmed and begins a new episode.
    #[pyo3(signature = (clear_buffers = true, timeout_ms = None))]
    fn end_episode(&self, py: Python<'_>, clear_buffers: bool, timeout_ms: Option<i64>) -> PyResult<()> {
        // As in dm-reverb, zero means here that there is no wait, whereas in flush it means that there is no limit.
        let mut state = self.shared.lock(py)?;
        let timeout = match timeout_ms {
            Some(0) => Duration::ZERO,
            other => Self::timeout(state.limit, other),
        };
        let writer = state.writer_mut(py)?;
        wait::now_or_wait(py, "end_episode", writer.end_episode(clear_buffers, timeout), wait::unconfirmed)?
            .or_raise(py)
    }

    /// Forgets all columns, so that the next step may have any structure.
    fn forget_columns(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.shared.lock(py)?;
        state.writer_mut(py)?.forget_columns().or_raise(py)?;
        let empty = state.layout.emptied();
        let layout = std::mem::replace(&mut state.layout, empty);
        state.forgotten += 1;
        // Python's destructors must not run while the state is locked.
        drop(state);
        drop(layout);
        self.history.replace(None);
        Ok(())
    }

    /// Sets how many steps the column at `path` keeps, and the number of steps per chunk.
    #[pyo3(signature = (path, *, num_keep_alive_refs, max_chunk_length))]
    fn configure(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyTuple>,
        num_keep_alive_refs: i64,
        max_chunk_length: Option<i64>,
    ) -> PyResult<()> {
        let number = |name: &str, value: i64| {
            u32::try_from(value).ok().filter(|&value| value >= 1).ok_or_else(|| {
                PyValueError::new_err(format!("{name} must be a positive integer, got {value}"))
            })
        };
        let kept = number("num_keep_alive_refs", num_keep_alive_refs)?;
        let chunk = max_chunk_length.map(|length| number("max_chunk_length", length)).transpose()?;
        let parts = path.iter().map(|part| Ok(part.str()?.to_string())).collect::<PyResult<Vec<_>>>()?;
        self.shared.lock(py)?.writer_mut(py)?.configure(&parts.join("/"), kept, chunk).or_raise(py)
    }

    /// Closes the writer. Unconfirmed items are dropped, with a warning in the log. With `report_loss`, an exception
    /// also reports the number and the tables of these items, and the reason.
    #[pyo3(signature = (*, report_loss = false))]
    fn close(&self, py: Python<'_>, report_loss: bool) -> PyResult<()> {
        let mut writer = self.shared.lock(py)?.writer.take();
        let lost = py.detach(|| {
            let lost = writer.as_mut().filter(|_| report_loss).and_then(RustWriter::loss);
            drop(writer);
            lost
        });
        lost.map_or(Ok(()), Err).or_raise(py)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.shared.lock(py)?.writer.is_none())
    }
}

/// Returns the number of unconfirmed items that a flush may leave.
pub(crate) fn items_left(block_until_num_items: i64) -> PyResult<usize> {
    usize::try_from(block_until_num_items).map_err(|_| {
        PyValueError::new_err(format!("block_until_num_items must be >= 0, got {block_until_num_items}"))
    })
}
