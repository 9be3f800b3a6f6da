//! Converts plain values from Python to the store's types.

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use relive_gpu::select::Selection;
use relive_gpu::{Cast, Column, Pad, Schema, Window};
use relive_tensor::DType;

use super::raise::{OrRaise, invalid};
use crate::arrays::dtypes::{descr_of, dtype_of};

/// Name, dtype and shape of a step.
pub(super) type GivenColumn<'py> = (String, Bound<'py, PyArrayDescr>, Vec<u64>);
/// Column, offset, length, whether padding is at the tail, its value, and the dtype and scale of a cast.
pub(super) type GivenWindow<'py> = (String, i64, u64, bool, f64, Option<(Bound<'py, PyArrayDescr>, f32)>);

/// Name, dtype and shape of a step, for Python.
type SchemaColumn<'py> = (String, Bound<'py, PyAny>, Vec<u64>);
/// The columns, the maximum number of steps, and the capacity.
pub(super) type SchemaFields<'py> = (Vec<SchemaColumn<'py>>, u64, u64);

/// Returns a schema of these columns.
pub(super) fn schema_of(py: Python<'_>, columns: &[GivenColumn<'_>], max_steps: u64) -> PyResult<Schema> {
    let columns = columns.iter().map(|(name, descr, shape)| {
        let dtype = dtype(py, descr, name)?;
        Ok(Column::new(name, dtype, shape))
    });
    Schema::new(max_steps, columns.collect::<PyResult<_>>()?).or_raise(py)
}

/// Returns the columns and maximum number of steps of a schema, for Python.
pub(super) fn columns_of<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Vec<SchemaColumn<'py>>> {
    let column =
        |column: &Column| Ok((column.name.clone(), descr_of(py, column.dtype)?, column.shape.clone()));
    schema.columns().iter().map(column).collect()
}

/// Returns windows of columns.
pub(super) fn windows_of(py: Python<'_>, windows: &[GivenWindow<'_>]) -> PyResult<Vec<Window>> {
    let windows = windows.iter().map(|(column, offset, length, is_tail, pad_value, cast)| {
        let cast = match cast {
            Some((descr, scale)) => Some(Cast { to: dtype(py, descr, column)?, scale: *scale }),
            None => None,
        };
        let pad = if *is_tail { Pad::Tail } else { Pad::Head };
        Ok(Window { pad, pad_value: *pad_value, cast, ..Window::new(column, *offset, *length) })
    });
    windows.collect()
}

fn dtype(py: Python<'_>, descr: &Bound<'_, PyArrayDescr>, column: &str) -> PyResult<DType> {
    dtype_of(descr)?
        .ok_or_else(|| invalid(py, format!("column {column:?}: a column cannot have the data type {descr}")))
}

/// Returns a selection by name and β, or `None` for an unknown name.
pub(super) fn selection_of(name: &str, beta: f32) -> Option<Selection> {
    Some(match name {
        "uniform" => Selection::Uniform,
        "weighted" => Selection::Weighted,
        "stratified" => Selection::Stratified,
        "prioritized" => Selection::Prioritized { beta, stratified: true },
        "top_k" => Selection::TopK,
        "fifo" => Selection::Fifo,
        "lifo" => Selection::Lifo,
        "without_replacement" => Selection::WithoutReplacement,
        _ => return None,
    })
}
