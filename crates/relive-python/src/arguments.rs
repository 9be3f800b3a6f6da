//! Numbers as arguments.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyFloat;

/// The priority of an item.
#[derive(Clone, Copy)]
pub(crate) struct Priority(pub(crate) f64);

/// A number of seconds to wait.
#[derive(Clone, Copy)]
pub(crate) struct Timeout(pub(crate) f64);

/// The number of steps in a window.
#[derive(Clone, Copy)]
pub(crate) struct Length(pub(crate) usize);

impl<'py> FromPyObject<'_, 'py> for Priority {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        real("priority", &object).map(Priority)
    }
}

impl<'py> FromPyObject<'_, 'py> for Timeout {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        real("timeout", &object).map(Timeout)
    }
}

impl<'py> FromPyObject<'_, 'py> for Length {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.extract().map(Length).map_err(|error| in_range("length", &object, error))
    }
}

/// Returns a function that puts the argument's name before the text of a `TypeError`.
pub(crate) fn of_argument(name: &str, py: Python<'_>) -> impl Fn(PyErr) -> PyErr {
    move |error| {
        if !error.is_instance_of::<PyTypeError>(py) {
            return error;
        }
        let named = PyTypeError::new_err(format!("{name}: {}", error.value(py)));
        named.set_cause(py, error.cause(py));
        named
    }
}

/// Returns a real number. numpy would convert complex numbers, dates and durations, which changes their meaning.
pub(crate) fn real(name: &str, object: &Bound<'_, PyAny>) -> PyResult<f64> {
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(float.value());
    }
    let dtype = object.getattr_opt(intern!(object.py(), "dtype"))?;
    let kind = dtype.map(|dtype| dtype.getattr_opt(intern!(object.py(), "kind"))).transpose()?.flatten();
    if kind.is_some_and(|kind| matches!(kind.extract::<&str>(), Ok("c" | "m" | "M"))) {
        let text = format!("{name} must be real number, not {}", object.repr()?);
        return Err(PyTypeError::new_err(text));
    }
    object.extract().map_err(|error| in_range(name, object, error))
}

/// Turns the error for a number that is too large for its type into a `ValueError` with the argument's name. PyO3 adds
/// the name to other errors.
fn in_range(name: &str, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyOverflowError>(object.py()) {
        return PyValueError::new_err(format!("{name} is {object}, which is out of range"));
    }
    error
}
