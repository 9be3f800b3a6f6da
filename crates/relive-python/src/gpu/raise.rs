//! Maps errors from the store to Python's exceptions.

use std::cell::Cell;

use pyo3::prelude::*;
use relive_gpu::{Error, ErrorKind};

use crate::error::raise_kind;
use crate::interpreter::finalization::attach;

/// An error from the store, or from a layer above it.
#[derive(Debug)]
pub(super) struct Failed {
    kind: ErrorKind,
    text: String,
}

pub(super) type Result<T, E = Failed> = std::result::Result<T, E>;

thread_local! {
    /// The exception that a signal handler raised while this thread waited without the interpreter.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Returns whether a wait without the interpreter must end because a signal handler raised. Only the main thread runs
/// signal handlers.
pub(super) fn interrupted() -> bool {
    let raised = attach(|py| py.check_signals().err());
    let is_raised = raised.is_some();
    RAISED.set(raised);
    is_raised
}

impl Failed {
    pub(super) fn new(kind: ErrorKind, text: String) -> Failed {
        Failed { kind, text }
    }

    pub(super) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the error's exception.
    pub(super) fn raise(self, py: Python<'_>) -> PyErr {
        if let (ErrorKind::Interrupted, Some(raised)) = (self.kind, RAISED.take()) {
            return raised;
        }
        raise_kind(py, kind_of(self.kind), self.text)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { kind: error.kind(), text: error.to_string() }
    }
}

/// Returns the kind of client error with the same exception.
fn kind_of(kind: ErrorKind) -> relive_client::ErrorKind {
    match kind {
        ErrorKind::InvalidArgument => relive_client::ErrorKind::InvalidArgument,
        ErrorKind::NotFound => relive_client::ErrorKind::NotFound,
        ErrorKind::Unavailable => relive_client::ErrorKind::Unavailable,
        ErrorKind::Corrupt => relive_client::ErrorKind::DataLoss,
        // The system's errors, and future kinds.
        _ => relive_client::ErrorKind::Internal,
    }
}

/// Converts a result of the store to a Python one.
pub(super) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Failed>> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.into().raise(py))
    }
}

/// Returns the exception for an invalid argument.
pub(super) fn invalid(py: Python<'_>, text: String) -> PyErr {
    raise_kind(py, relive_client::ErrorKind::InvalidArgument, text)
}

/// Returns the reason why no GPU is usable, or `None` if a GPU is usable.
#[pyfunction]
pub(crate) fn gpu_unavailable(py: Python<'_>) -> Option<String> {
    py.detach(|| relive_gpu::cuda::Device::available().err().map(|error| error.to_string()))
}
