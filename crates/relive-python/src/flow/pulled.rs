//! A flow as a Python iterator.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_flow::{ErrorKind, Flow, FlowError, Monitor, OperatorStatus};

use super::owned::{OwnedFlow, State};
use super::raise::{Failed, raise};
use super::source::Item;
use crate::interpreter::finalization;
use crate::interpreter::wait::WaitLog;

/// The interval between checks for signals while waiting for an item.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// A flow as a Python iterator, for functions that map an iterator to an iterator.
#[pyclass(frozen, module = "relive._native", name = "FlowItems")]
pub(super) struct Pulled(OwnedFlow);

impl Pulled {
    pub(super) fn of(py: Python<'_>, flow: Flow<Item>) -> PyResult<Bound<'_, Pulled>> {
        Bound::new(py, Pulled(OwnedFlow::new(flow)))
    }
}

#[pymethods]
impl Pulled {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut wait_log = WaitLog::new("an iterator of transform()");
        loop {
            let mut flow = match self.0.take(py)? {
                State::Here(flow) => flow,
                // If this ended the iteration, its items would be missing without notice.
                State::Taken => return Err(PyValueError::new_err("another thread is using this iterator")),
                State::Closed => return Ok(None),
            };
            let (flow, item) = py.detach(move || {
                let item = flow.next_for(SLICE);
                (flow, item)
            });
            let monitor = flow.monitor();
            self.0.put(py, flow);
            match item {
                None => {
                    self.0.close(py);
                    return Ok(None);
                }
                Some(Err(error)) if error.kind() == ErrorKind::Timeout => {
                    py.check_signals()?;
                    wait_log.tell_if_due(|| awaited(&monitor));
                }
                Some(item) => return item.map(|item| Some(item.0)).map_err(|error| raise(py, &error)),
            }
        }
    }
}

/// Describes what a pull waits for.
pub(super) fn awaited(monitor: &Monitor) -> String {
    let name = |operator: OperatorStatus| match operator.shards {
        Some(shards) if shards > 1 => format!("{} in {shards} shards", operator.name),
        _ => operator.name,
    };
    let names: Vec<String> = monitor.waiting().into_iter().map(name).collect();
    if names.is_empty() {
        "its functions are at work".to_owned()
    } else {
        format!("no item from {}", names.join(", "))
    }
}

/// Preserves the errors of functions on their way through another graph.
impl From<FlowError> for Failed {
    fn from(error: FlowError) -> Failed {
        finalization::attach(|py| Failed::from(raise(py, &error)))
    }
}
