//! Checks arrays against the columns of a schema.

use pyo3::prelude::*;
use relive_gpu::{Column, Schema};

use super::raise::invalid;
use crate::arrays::numeric_array::NumericArray;

/// Returns a column of a schema.
pub(super) fn column_at<'a>(py: Python<'_>, schema: &'a Schema, column: usize) -> PyResult<&'a Column> {
    let found = schema.columns().get(column);
    found.ok_or_else(|| invalid(py, format!("there is no column {column}")))
}

/// Returns the dimensions of an array of one step or of several steps.
pub(super) fn dims(column: &Column, rows: Option<usize>) -> Vec<usize> {
    // A step fits in memory.
    let sizes = column.shape.iter().map(|&size| usize::try_from(size).unwrap_or(usize::MAX));
    rows.into_iter().chain(sizes).collect()
}

/// # Errors
/// The array does not have the shape of a step of the column, or of as many steps.
pub(super) fn check_step(
    py: Python<'_>,
    column: &Column,
    array: &NumericArray<'_>,
    rows: Option<usize>,
) -> PyResult<()> {
    let expected = dims(column, rows);
    if array.dtype() == column.dtype && array.shape() == expected {
        return Ok(());
    }
    let (given, wanted) = (array.dtype().numpy_name(), column.dtype.numpy_name());
    let (shape, name) = (array.shape(), &column.name);
    Err(invalid(
        py,
        format!(
            "column {name:?}: got {given} of shape {shape:?}, but expected {wanted} of shape {expected:?}"
        ),
    ))
}
