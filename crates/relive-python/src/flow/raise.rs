//! Propagates exceptions from operators through a graph.

use std::fmt;

use pyo3::exceptions::{
    PyBaseException, PyException, PyRuntimeError, PyStopIteration, PyTimeoutError, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;
use relive_flow::{ErrorKind, FlowError};

/// The exception that a Python function raised.
#[derive(Debug)]
pub(super) struct Failed(PyErr);

impl Failed {
    /// Returns whether the exception is an ordinary one, which programs are meant to catch.
    pub(super) fn is_exception(&self, py: Python<'_>) -> bool {
        self.0.is_instance_of::<PyException>(py)
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Failed {
        Failed(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failed {}

/// Returns the exception for an error: the exception that a function raised, with a note of its place in the graph.
pub(super) fn raise(py: Python<'_>, error: &FlowError) -> PyErr {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Failed>());
    if let Some(Failed(raised)) = cause {
        // Python 3.10 has no notes.
        let _ = note(raised.value(py), error.to_string());
        if raised.is_instance_of::<PyStopIteration>(py) {
            // Without this conversion, a StopIteration would silently end the consumer and lose the remaining items.
            // Python's generators convert it for the same reason.
            let runtime_error = PyRuntimeError::new_err(format!("{error}: a function raised StopIteration"));
            runtime_error.set_cause(py, Some(raised.clone_ref(py)));
            return runtime_error;
        }
        return raised.clone_ref(py);
    }
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Invalid | ErrorKind::Unsaved => PyValueError::new_err(text),
        ErrorKind::Timeout | ErrorKind::Late => PyTimeoutError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// Adds a note with the location of an error to an exception. It replaces the note of the same operator, which an
/// exception has if it is raised more than once.
fn note(raised: &Bound<'_, PyBaseException>, text: String) -> PyResult<()> {
    const FAILED: &str = " failed at item ";
    let py = raised.py();
    if let (Some((operator, _)), Ok(notes)) =
        (text.split_once(FAILED), raised.getattr(intern!(py, "__notes__")))
    {
        let place = format!("{operator}{FAILED}");
        let is_other =
            |note: &Bound<'_, PyAny>| !note.extract::<String>().is_ok_and(|note| note.starts_with(&place));
        let others = notes
            .try_iter()?
            .filter(|note| note.as_ref().map_or(true, is_other))
            .collect::<PyResult<Vec<_>>>()?;
        raised.setattr(intern!(py, "__notes__"), others)?;
    }
    raised.call_method1(intern!(py, "add_note"), (text,))?;
    Ok(())
}
