//! Columns of items to be: references to steps of a writer's history, sliced like lists.

use std::sync::Arc;

use parking_lot::MutexGuard;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};
use relive_client::Column;

use crate::array;
use crate::error::OrRaise;
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
        let len = state.history_len();
        let made = if let Ok(slice) = index.cast::<PySlice>() {
            let indices = slice.indices(len.cast_signed())?;
            if indices.slicelength == 0 {
                return Ok(self.column_of(py, None, false));
            }
            match indices.step {
                1 => history.slice(indices.start as i64..indices.stop as i64),
                _ => history.rows(&positions(indices.start, indices.step, indices.slicelength)),
            }
        } else if let Ok(list) = index.cast::<PyList>() {
            let rows: Vec<isize> = list.extract().map_err(|_| bad_index(index))?;
            rows.iter().try_for_each(|&row| check_row(row, len))?;
            if rows.is_empty() {
                return Ok(self.column_of(py, None, false));
            }
            history.rows(&rows.into_iter().map(|row| row as i64).collect::<Vec<_>>())
        } else {
            let row: isize = index.extract().map_err(|_| bad_index(index))?;
            check_row(row, len)?;
            let made = history.step(row as i64).or_raise(py)?;
            return Ok(self.column_of(py, Some(made), true));
        };
        let made = made.or_raise(py)?;
        drop(state);
        Ok(self.column_of(py, Some(made), false))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.state(py)?;
        let history = state.writer(py)?.history().column_at(self.column).or_raise(py)?;
        let cells = (0..state.history_len() as i64).map(|at| history.step(at).ok().map(|column| CellRef { column }));
        PyList::new(py, cells.collect::<Vec<_>>())?.into_any().try_iter().map(Bound::into_any)
    }

    #[getter]
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

    fn column_of(&self, py: Python<'_>, column: Option<Column>, squeeze: bool) -> TrajectoryColumn {
        let data = column.map_or(Data::Empty, Data::Own);
        TrajectoryColumn { data, squeeze, path: Some(self.path.clone_ref(py).into_any()) }
    }
}

fn positions(start: isize, step: isize, count: usize) -> Vec<i64> {
    (0..count).map(|index| (start + step * index.cast_signed()) as i64).collect()
}

fn check_row(row: isize, len: usize) -> PyResult<()> {
    let at = if row < 0 { row + len.cast_signed() } else { row };
    if at < 0 || at.cast_unsigned() >= len {
        return Err(PyIndexError::new_err(format!("list index out of range: step {row} of a history of {len} steps")));
    }
    Ok(())
}

fn bad_index(index: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "a history is indexed by an int, a slice or a list of ints, not by a {}",
        index.get_type()
    ))
}

/// A column of an item: references to steps, or anything that looks like references.
#[pyclass(frozen, subclass, module = "relive._native", name = "TrajectoryColumn")]
pub(crate) struct TrajectoryColumn {
    data: Data,
    squeeze: bool,
    path: Option<Py<PyAny>>,
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
        self.path.as_ref().map_or_else(|| "()".to_owned(), |path| path.bind(py).to_string())
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
        cells.into_iter().next().ok_or_else(|| PyValueError::new_err("an empty column has no shape and no dtype"))
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
        let text = || path.as_ref().map_or_else(|| "()".to_owned(), |path| path.bind(py).to_string());
        if squeeze && cells.len() != 1 {
            return Err(PyValueError::new_err(format!(
                "a squeezed column has exactly one step, but {} were given (path={})",
                cells.len(),
                text()
            )));
        }
        if let Some(missing) = cells.iter().position(Bound::is_none) {
            return Err(PyValueError::new_err(format!(
                "a column cannot have None in it, but step {missing} of {} is (path={}): it had no data, or is not kept any more",
                cells.len(),
                text()
            )));
        }
        let own: Option<Vec<Column>> =
            cells.iter().map(|cell| cell.cast::<CellRef>().ok().map(|cell| cell.get().column.clone())).collect();
        let data = match own {
            _ if cells.is_empty() => Data::Empty,
            Some(columns) => Data::Own(Column::concat(&columns, squeeze).or_raise(py)?),
            None => Data::Foreign(cells.into_iter().map(Bound::unbind).collect()),
        };
        Ok(TrajectoryColumn { data, squeeze, path })
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
            (positions(indices.start, indices.step, indices.slicelength), false)
        } else if let Ok(list) = index.cast::<PyList>() {
            let rows: Vec<isize> = list.extract().map_err(|_| bad_index(index))?;
            rows.iter().try_for_each(|&row| check_row(row, len))?;
            (rows.into_iter().map(|row| row as i64).collect(), false)
        } else {
            let row: isize = index.extract().map_err(|_| bad_index(index))?;
            check_row(row, len)?;
            (vec![row as i64], true)
        };
        let rows: Vec<usize> = rows.iter().map(|&row| row.rem_euclid(len.max(1) as i64) as usize).collect();
        let data = match &self.data {
            _ if rows.is_empty() => Data::Empty,
            Data::Empty => Data::Empty,
            Data::Own(column) => Data::Own(column.subcolumn(&rows).or_raise(py)?),
            Data::Foreign(cells) => {
                Data::Foreign(rows.iter().filter_map(|&row| cells.get(row)).map(|cell| cell.clone_ref(py)).collect())
            }
        };
        let path = self.path.as_ref().map(|path| path.clone_ref(py));
        Ok(TrajectoryColumn { data, squeeze, path })
    }

    #[getter]
    fn is_squeezed(&self) -> bool {
        self.squeeze
    }

    #[getter]
    fn path(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.path.as_ref().map(|path| path.clone_ref(py))
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

/// The error for a writer that two threads use at a time.
pub(crate) fn busy() -> PyErr {
    PyRuntimeError::new_err("the writer is used by another thread at this moment; a writer belongs to one thread")
}
