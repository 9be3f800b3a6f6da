//! Steps that do not fit their writer: numbers that can be converted, and exceptions for everything else.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};
use relive_client::{AppendFault, AppendMismatch, Error};

use super::layout::{Leaves, Path};
use crate::arrays::dtypes::descr_of;
use crate::error::{raise, raise_kind};

/// If the writer refused a step because of the type of a Python int or bool, returns the column's number and the value
/// in the column's type. Returns `None` if the type cannot represent the value, or for any other error. Numpy's scalars
/// and arrays are not converted.
pub(crate) fn fitted<'py>(
    error: &Error,
    value_of: impl FnOnce(usize) -> Option<Bound<'py, PyAny>>,
) -> PyResult<Option<(usize, Bound<'py, PyAny>)>> {
    let source = std::error::Error::source(error);
    let Some(AppendMismatch { column, fault: AppendFault::DType { expected, .. }, .. }) =
        source.and_then(|source| source.downcast_ref::<AppendMismatch>())
    else {
        return Ok(None);
    };
    let Some(value) = value_of(*column) else { return Ok(None) };
    if !value.is_exact_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    let py = value.py();
    let numbers = py.import(intern!(py, "relive._numbers"))?;
    let number = numbers.call_method1(intern!(py, "fitted_number"), (&value, descr_of(py, *expected)?))?;
    Ok((!number.is(&value)).then_some((*column, number)))
}

/// Returns the exception for a refused step. Its text shows the column's path in Python's notation, the value that
/// cannot be set twice, and types and shapes in the notation of numpy or dm-reverb.
pub(crate) fn raise_append(
    py: Python<'_>,
    error: &Error,
    paths: &[Path],
    leaves: &Leaves<'_>,
    as_reverb: bool,
) -> PyErr {
    let source = std::error::Error::source(error);
    let Some(mismatch) = source.and_then(|source| source.downcast_ref::<AppendMismatch>()) else {
        return raise(py, error);
    };
    let path =
        paths.get(mismatch.column).map_or_else(|| "?".to_owned(), |path| path.parts.bind(py).to_string());
    let value = leaves.iter().find(|(column, _)| *column == mismatch.column);
    let value = match (&mismatch.fault, value) {
        (AppendFault::SetTwice, Some((_, value))) => format!("; the value given now is {value}"),
        _ => String::new(),
    };
    let fault = if as_reverb { mismatch.fault.to_string() } else { fault_of(&mismatch.fault) };
    let text = format!("append: column {} (path={path}) {fault}{value}", mismatch.column);
    raise_kind(py, error.kind(), text)
}

/// Like [`raise_append`], but for writers that identify columns only by number.
pub(crate) fn raise_numbered(py: Python<'_>, error: &Error, as_reverb: bool) -> PyErr {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<AppendMismatch>()) {
        Some(AppendMismatch { column, path, fault, .. }) if !as_reverb => {
            let text = format!("column {column} (path {path:?}) {}", fault_of(fault));
            raise_kind(py, error.kind(), text)
        }
        _ => raise(py, error),
    }
}

/// Describes, in numpy's notation, why a value is invalid.
fn fault_of(fault: &AppendFault) -> String {
    let describe = |what: &str, got: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
        format!(
            "got {what} {got}, but expected {expected} as in its first value; every step of a column must have the same dtype and shape"
        )
    };
    match fault {
        AppendFault::DType { got, expected } => describe("dtype", &got.numpy_name(), &expected.numpy_name()),
        AppendFault::Shape { got, expected } => {
            describe("shape", &got.display_numpy(), &expected.display_numpy())
        }
        other => other.to_string(),
    }
}
