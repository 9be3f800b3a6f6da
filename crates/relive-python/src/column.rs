//! Columns of items to be: references to steps of a writer's history, sliced like lists.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::MutexGuard;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString, PyTuple};
use relive_client::{Column, ErrorKind};

use crate::array;
use crate::error::{OrRaise, raise, raise_kind};
use crate::writer::{Shared, State};

/// The steps of one column of a writer since its history was last cleared.
#[pyclass(frozen, module = "relive._native", name = "ColumnHistory")]
pub(crate) struct ColumnHistory {
    pub(crate) shared: Arc<Shared>,
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

    /// Where the column is in a step. A method, as in dm-reverb.
    fn path(&self, py: Python<'_>) -> Py<PyTuple> {
        self.path.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("_ColumnHistory(path={}, len={})", self.path.bind(py), self.__len__(py)?))
    }
}

impl ColumnHistory {
    fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        self.shared.lock(py)
    }
}

/// What a key of a history means, as positions from its first step.
enum Steps {
    None,
    One(i64),
    Range(Range<i64>),
    Many(Vec<i64>),
}

impl Steps {
    /// Nothing is cut at the first step, as a list would do: a column shorter than was asked for would be a surprise.
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
        // A slice far before the first step is refused for its first step; more of them need not be listed.
        let count = count.min(len.unsigned_abs().saturating_add(1));
        Ok(Steps::Many((0..count).map(|index| (start + stride * index.cast_signed()) as i64).collect()))
    }

    /// The earliest step, below 0 for one before the first of the history.
    fn first(&self) -> i64 {
        match self {
            Steps::None => 0,
            Steps::One(step) => *step,
            Steps::Range(range) => range.start,
            Steps::Many(steps) => steps.iter().copied().min().unwrap_or(0),
        }
    }

    /// The steps that are there, and none for the others, as far as an error shows them.
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

/// References in the text of an error; more would hide what it says.
const MAX_SHOWN_CELLS: usize = 16;

/// The position of step `key`, which counts from the newest if it is negative; below 0 for one before the first.
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
        "step {key} lies before the first of the {len} steps since the history began, and is None; an item cannot have it"
    )
}

/// The error of a column with steps that have no data. Programs for dm-reverb compare its first sentence.
fn none_in_column(py: Python<'_>, path: &ColumnPath, cells: &[Option<CellRef>], help: &str) -> PyErr {
    let cells = cells.iter().cloned().map(|cell| cell.into_pyobject(py)).collect::<PyResult<Vec<_>>>();
    let cells = cells.and_then(|cells| PyList::new(py, cells));
    match (path.get(py), cells) {
        (Ok(path), Ok(cells)) => {
            raise_kind(py, ErrorKind::InvalidArgument, none_text(path.as_ref(), &cells, help))
        }
        (Err(error), _) | (_, Err(error)) => error,
    }
}

/// Which cells of a column do not go together. Programs for dm-reverb compare this sentence.
fn unlike_text(cells: &[Column]) -> Option<String> {
    let first = cells.first()?;
    let (shape, dtype) = (first.cell_shape(), first.dtype());
    if let Some(at) = cells.iter().position(|cell| cell.dtype() != dtype) {
        let other = cells.get(at)?.dtype();
        return Some(format!(
            "Column references tensors with different dtypes: {dtype} (index 0) != {other} (index {at})."
        ));
    }
    let at = cells.iter().position(|cell| cell.cell_shape() != shape)?;
    let other = cells.get(at)?.cell_shape();
    Some(format!(
        "Column references tensors with incompatible shapes: {shape} (index 0) not compatible with {other} (index {at})."
    ))
}

fn none_text(path: Option<&Bound<'_, PyAny>>, cells: &Bound<'_, PyList>, help: &str) -> String {
    let path = path.map_or_else(|| "None".to_owned(), ToString::to_string);
    format!(
        "TrajectoryColumns cannot contain any None data references: TrajectoryColumn at path {path} got {cells}. {help}"
    )
}

/// The row that is meant, which counts from the end if it is negative.
fn row_of(row: isize, len: usize) -> PyResult<usize> {
    let at = if row < 0 { row.saturating_add(len.cast_signed()) } else { row };
    usize::try_from(at).ok().filter(|&at| at < len).ok_or_else(|| {
        PyIndexError::new_err(format!("tuple index out of range: row {row} of a column of {len} steps"))
    })
}

/// Programs for dm-reverb compare the text up to the semicolon.
fn bad_index(class: &str, index: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{class} indices must be integers or slices, not {}; a list of integers is possible, too",
        index.get_type()
    ))
}

/// A column of an item: references to steps, or anything that looks like references.
#[pyclass(frozen, subclass, module = "relive._native", name = "TrajectoryColumn")]
pub(crate) struct TrajectoryColumn {
    data: Data,
    squeeze: bool,
    path: ColumnPath,
}

/// Where a column comes from, put together when somebody asks.
enum ColumnPath {
    Given(Option<Py<PyAny>>),
    /// A key of the history at a path.
    Step {
        of: Py<PyTuple>,
        key: Py<PyAny>,
    },
}

impl ColumnPath {
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            ColumnPath::Given(path) => Ok(path.as_ref().map(|path| path.bind(py).clone())),
            ColumnPath::Step { of, key } => {
                let path = of.bind(py).iter().chain(std::iter::once(key.bind(py).clone()));
                Ok(Some(PyTuple::new(py, path.collect::<Vec<_>>())?.into_any()))
            }
        }
    }

    fn clone_ref(&self, py: Python<'_>) -> ColumnPath {
        match self {
            ColumnPath::Given(path) => ColumnPath::Given(path.as_ref().map(|path| path.clone_ref(py))),
            ColumnPath::Step { of, key } => ColumnPath::Step { of: of.clone_ref(py), key: key.clone_ref(py) },
        }
    }
}

enum Data {
    Empty,
    Own(Column),
    /// References of another kind, which have `shape`, `dtype`, `numpy()`.
    Foreign(Vec<Py<PyAny>>),
}

impl TrajectoryColumn {
    /// The column for an item, if it refers to a writer's history.
    pub(crate) fn own(&self) -> Option<&Column> {
        match &self.data {
            Data::Own(column) => Some(column),
            Data::Empty | Data::Foreign(_) => None,
        }
    }

    pub(crate) fn path_text(&self, py: Python<'_>) -> String {
        match self.path.get(py) {
            Ok(Some(path)) => path.to_string(),
            Ok(None) | Err(_) => "()".to_owned(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.data, Data::Empty)
    }

    fn len(&self) -> usize {
        match &self.data {
            Data::Empty => 0,
            Data::Own(column) => column.len(),
            Data::Foreign(cells) => cells.len(),
        }
    }

    /// Single cells, each as a reference.
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match &self.data {
            Data::Empty => Ok(Vec::new()),
            Data::Own(column) => (0..column.len())
                .map(|row| {
                    let column = column.subcolumn(&[row]).or_raise(py)?;
                    Ok(Bound::new(py, CellRef { column })?.into_any())
                })
                .collect(),
            Data::Foreign(cells) => Ok(cells.iter().map(|cell| cell.bind(py).clone()).collect()),
        }
    }

    fn any_cell<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let cells = self.cells(py)?;
        cells
            .into_iter()
            .next()
            .ok_or_else(|| PyValueError::new_err("an empty column has no shape and no dtype"))
    }
}

#[pymethods]
impl TrajectoryColumn {
    #[new]
    #[pyo3(signature = (data_references, *, squeeze = false, path = None))]
    fn new(
        py: Python<'_>,
        data_references: &Bound<'_, PyAny>,
        squeeze: bool,
        path: Option<Py<PyAny>>,
    ) -> PyResult<TrajectoryColumn> {
        let cells: Vec<Bound<'_, PyAny>> = data_references.try_iter()?.collect::<PyResult<_>>()?;
        let path_given = path.as_ref().map(|path| path.bind(py));
        // Programs for dm-reverb compare these two texts up to what is added in the end.
        if squeeze && cells.len() != 1 {
            let path = path_given.map_or_else(|| "()".to_owned(), ToString::to_string);
            return Err(PyValueError::new_err(format!(
                "Columns must contain exactly one data reference when squeeze set, got {} (path={path})",
                cells.len(),
            )));
        }
        if let Some(missing) = cells.iter().position(Bound::is_none) {
            let help = format!("step {missing} of {} had no data, or is not kept any more", cells.len());
            return Err(PyValueError::new_err(none_text(path_given, &PyList::new(py, cells)?, &help)));
        }
        let own: Option<Vec<Column>> = cells
            .iter()
            .map(|cell| cell.cast::<CellRef>().ok().map(|cell| cell.get().column.clone()))
            .collect();
        let data = match own {
            _ if cells.is_empty() => Data::Empty,
            Some(columns) => Data::Own(Column::concat(&columns, squeeze).map_err(|error| {
                let text =
                    unlike_text(&columns).map_or_else(|| error.to_string(), |text| format!("{text} {error}"));
                raise_kind(py, error.kind(), text)
            })?),
            None => Data::Foreign(cells.into_iter().map(Bound::unbind).collect()),
        };
        Ok(TrajectoryColumn { data, squeeze, path: ColumnPath::Given(path) })
    }

    fn __len__(&self) -> usize {
        self.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyList::new(py, self.cells(py)?)?.into_any().try_iter().map(Bound::into_any)
    }

    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<TrajectoryColumn> {
        let len = self.len();
        let (rows, squeeze) = if let Ok(slice) = index.cast::<PySlice>() {
            let indices = slice.indices(len.cast_signed())?;
            let row = |index: usize| indices.start + indices.step * index.cast_signed();
            ((0..indices.slicelength).map(row).collect(), false)
        } else if let Ok(list) = index.cast::<PyList>() {
            (list.extract::<Vec<isize>>().map_err(|_| bad_index("TrajectoryColumn", index))?, false)
        } else {
            (vec![index.extract().map_err(|_| bad_index("TrajectoryColumn", index))?], true)
        };
        let rows = rows.into_iter().map(|row| row_of(row, len)).collect::<PyResult<Vec<usize>>>()?;
        let data = match &self.data {
            _ if rows.is_empty() => Data::Empty,
            Data::Empty => Data::Empty,
            Data::Own(column) => Data::Own(column.subcolumn(&rows).or_raise(py)?),
            Data::Foreign(cells) => Data::Foreign(
                rows.iter().filter_map(|&row| cells.get(row)).map(|cell| cell.clone_ref(py)).collect(),
            ),
        };
        Ok(TrajectoryColumn { data, squeeze, path: self.path.clone_ref(py) })
    }

    #[getter]
    fn is_squeezed(&self) -> bool {
        self.squeeze
    }

    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.path.get(py)
    }

    /// Shape of the data: the steps lead, unless the column is squeezed.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        if let Data::Own(column) = &self.data {
            return PyTuple::new(py, column.shape().dims());
        }
        let cell: Vec<usize> = self.any_cell(py)?.getattr("shape")?.extract()?;
        let rows = (!self.squeeze).then_some(self.len());
        PyTuple::new(py, rows.into_iter().chain(cell).collect::<Vec<_>>())
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.data {
            Data::Own(column) => array::descr_of(py, column.dtype()),
            Data::Empty | Data::Foreign(_) => self.any_cell(py)?.getattr("dtype"),
        }
    }

    /// The data, copied.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Data::Own(column) = &self.data {
            return array::from_tensor(py, &column.to_tensor().or_raise(py)?);
        }
        let cells = self.cells(py)?;
        let mut values = cells.iter().map(|cell| cell.call_method0("numpy"));
        match (self.squeeze, values.next()) {
            (true, Some(value)) => value,
            (_, first) => {
                let values = first.into_iter().chain(values).collect::<PyResult<Vec<_>>>()?;
                array::numpy(py)?.call_method1("stack", (values,))
            }
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("TrajectoryColumn(path={}, len={}, squeeze={})", self.path_text(py), self.len(), self.squeeze)
    }
}

/// A reference to one step of one column.
#[derive(Clone)]
#[pyclass(frozen, module = "relive._native", name = "CellRef")]
pub(crate) struct CellRef {
    column: Column,
}

#[pymethods]
impl CellRef {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.column.cell_shape().dims())
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::descr_of(py, self.column.dtype())
    }

    /// Always false: a reference keeps what it refers to.
    #[getter]
    #[expect(clippy::unused_self, reason = "a property of every reference")]
    fn expired(&self) -> bool {
        false
    }

    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::from_tensor(py, &self.column.to_tensor().or_raise(py)?)
    }
}
