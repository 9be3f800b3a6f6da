//! Objects on their way through a graph.

use pyo3::prelude::*;

/// An object of Python.
pub(super) struct Item(pub(super) Py<PyAny>);

impl Clone for Item {
    fn clone(&self) -> Item {
        Python::attach(|py| Item(self.0.clone_ref(py)))
    }
}
