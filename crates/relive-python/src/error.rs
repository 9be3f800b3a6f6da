//! Maps errors from the Rust crates to Python's exceptions, which `relive/errors.py` declares.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use relive_client::{Error, ErrorKind};

/// Returns the exception for a client's error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    raise_kind(py, error.kind(), error.to_string())
}

/// Returns the exception for an error that prevented a server from starting, or ended it.
pub(crate) fn raise_host(py: Python<'_>, error: impl Into<relive_host::Error>) -> PyErr {
    raise(py, &Error::from(error.into()))
}

/// Returns an exception of the given kind, with the given text.
pub(crate) fn raise_kind(py: Python<'_>, kind: ErrorKind, text: String) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = ERRORS.get_or_try_init(py, || py.import("relive.errors").map(Bound::unbind));
    match module.and_then(|module| module.bind(py).getattr(kind.python_class())) {
        Ok(class) => match class.call1((text,)) {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        },
        Err(_) => PyRuntimeError::new_err(text),
    }
}

/// Converts a Rust result to a Python one.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, &error))
    }
}

/// Returns a `ValueError` with the text of `error`.
pub(crate) fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
