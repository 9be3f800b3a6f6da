//! Columns of future items: references to steps of a writer's history, sliced like lists.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};
use relive_client::{Column, ErrorKind};

use crate::arrays::array;
use crate::arrays::dtypes;
use crate::error::{OrRaise, raise_kind};

/// The maximum number of references that an error shows; more references would obscure its message.
pub(crate) const MAX_SHOWN_CELLS: usize = 16;

/// Returns the error for a column with steps that have no data. Programs for dm-reverb compare its first sentence.
pub(crate) fn none_in_column(
    py: Python<'_>,
    path: &ColumnPath,
    cells: &[Option<CellRef>],
    help: &str,
) -> PyErr {
    let cells = cells.iter().cloned().map(|cell| cell.into_pyobject(py)).collect::<PyResult<Vec<_>>>();
    let cells = cells.and_then(|cells| PyList::new(py, cells));
    match (path.get(py), cells) {
        (Ok(path), Ok(cells)) => {
            raise_kind(py, ErrorKind::InvalidArgument, none_text(path.as_ref(), &cells, help))
        }
        (Err(error), _) | (_, Err(error)) => error,
    }
}

/// Describes the cells of a column that do not match. Programs for dm-reverb compare this sentence.
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

/// Returns the index of a row, counted from the end if it is negative.
fn row_of(row: isize, len: usize) -> PyResult<usize> {
    let at = if row < 0 { row.saturating_add(len.cast_signed()) } else { row };
    usize::try_from(at).ok().filter(|&at| at < len).ok_or_else(|| {
        PyIndexError::new_err(format!("tuple index out of range: row {row} of a column of {len} steps"))
    })
}

/// Returns the error for an index of the wrong type. Programs for dm-reverb compare the text up to the semicolon.
pub(crate) fn bad_index(class: &str, index: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{class} indices must be integers or slices, not {}; lists of integers are also supported",
        index.get_type()
    ))
}

/// A column of an item: references to steps, or objects that behave like references.
#[pyclass(frozen, subclass, module = "relive._native", name = "TrajectoryColumn")]
pub(crate) struct TrajectoryColumn {
    pub(crate) data: Data,
    pub(crate) squeeze: bool,
    pub(crate) path: ColumnPath,
}

/// The path of a column, formatted on demand.
pub(crate) enum ColumnPath {
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

pub(crate) enum Data {
    Empty,
    Own(Column),
    /// References of a different kind, with `shape`, `dtype` and `numpy()`.
    Foreign(Vec<Py<PyAny>>),
}

impl TrajectoryColumn {
    /// Returns the column for an item, if it refers to a writer's history.
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

    /// Returns each cell as a reference.
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match &self.data {
            Data::Empty => Ok(Vec::new()),
            Data::Own(column) => (0..column.len())
                .map(|row| {
                    let column = column.step_at(row).or_raise(py)?;
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
        // Programs for dm-reverb compare these two texts, except for their additions at the end.
        if squeeze && cells.len() != 1 {
            let path = path_given.map_or_else(|| "()".to_owned(), ToString::to_string);
            return Err(PyValueError::new_err(format!(
                "Columns must contain exactly one data reference when squeeze set, got {} (path={path})",
                cells.len(),
            )));
        }
        if let Some(missing) = cells.iter().position(Bound::is_none) {
            let help = format!("step {missing} of {} had no data, or is no longer available", cells.len());
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
            Data::Own(column) => Data::Own(match rows[..] {
                [row] if squeeze => column.step_at(row).or_raise(py)?,
                _ => column.subcolumn(&rows).or_raise(py)?,
            }),
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

    /// Returns the shape of the data: the steps come first, unless the column is squeezed.
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
            Data::Own(column) => dtypes::descr_of(py, column.dtype()),
            Data::Empty | Data::Foreign(_) => self.any_cell(py)?.getattr("dtype"),
        }
    }

    /// Returns a copy of the data.
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
                dtypes::numpy(py)?.call_method1("stack", (values,))
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
    pub(crate) column: Column,
}

#[pymethods]
impl CellRef {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.column.cell_shape().dims())
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dtypes::descr_of(py, self.column.dtype())
    }

    /// Returns false: a reference keeps its data alive.
    #[getter]
    #[expect(clippy::unused_self, reason = "the answer is the same for every reference")]
    fn expired(&self) -> bool {
        false
    }

    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::from_tensor(py, &self.column.to_tensor().or_raise(py)?)
    }
}
