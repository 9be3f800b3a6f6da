//! A flow as a Python iterator.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use relive_flow::{Flow, FlowError};

use super::raise::{Failed, raise};
use super::source::Item;
use crate::interpreter::finalization;
use crate::interpreter::lock::Brief;

/// A flow as a Python iterator, for functions that map an iterator to an iterator.
#[pyclass(frozen, module = "relive._native", name = "FlowItems")]
pub(super) struct Pulled(Brief<Option<Flow<Item>>>);

impl Pulled {
    pub(super) fn of(py: Python<'_>, flow: Flow<Item>) -> PyResult<Bound<'_, Pulled>> {
        Bound::new(py, Pulled(Brief::new(Some(flow))))
    }
}

#[pymethods]
impl Pulled {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let end = || PyStopIteration::new_err(());
        let mut flow = self.0.take().ok_or_else(end)?;
        let (flow, item) = py.detach(move || {
            let item = flow.next();
            (flow, item)
        });
        match item {
            None => Err(end()),
            Some(item) => {
                self.0.replace(Some(flow));
                item.map(|item| item.0).map_err(|error: FlowError| raise(py, &error))
            }
        }
    }
}

/// Preserves the errors of functions on their way through another graph.
impl From<FlowError> for Failed {
    fn from(error: FlowError) -> Failed {
        finalization::attach(|py| Failed::from(raise(py, &error)))
    }
}
