//! Python's notion of true and false.

use pyo3::prelude::*;

/// A flag: any object, as in Python's `if`.
#[derive(Clone, Copy)]
pub(crate) struct Truth(pub(crate) bool);

impl<'py> FromPyObject<'_, 'py> for Truth {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.is_truthy().map(Truth)
    }
}
