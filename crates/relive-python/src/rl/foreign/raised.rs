//! Exceptions of Python code on their way through Rust.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_rl::RlError;

/// The first exception that Python code raised while Rust called it. Clones share it.
#[derive(Clone, Default)]
pub(in crate::rl) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps `error`; what Rust gets to see of it.
    pub(in crate::rl) fn keep(&self, error: PyErr) -> String {
        let text = error.to_string();
        let mut kept = self.0.lock();
        if kept.is_none() {
            *kept = Some(error);
        }
        text
    }

    /// What was raised, if anything was.
    pub(super) fn text(&self) -> Option<String> {
        self.0.lock().as_ref().map(ToString::to_string)
    }

    pub(in crate::rl) fn take(&self) -> Option<PyErr> {
        self.0.lock().take()
    }

    /// Calls Python code; its exception is kept.
    pub(in crate::rl) fn call<T>(
        &self,
        code: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> relive_rl::Result<T> {
        Python::attach(code).map_err(|error| RlError::Foreign(self.keep(error)))
    }

    /// What a bridge of a policy or a learner is resumed with. What goes wrong is kept, and keeps the run from being saved.
    pub(super) fn save(&self, bridge: &Py<PyAny>) -> Vec<u8> {
        let saved = self.call(|py| bridge.bind(py).call_method0(intern!(py, "save"))?.extract::<Vec<u8>>());
        saved.unwrap_or_default()
    }

    /// Has such a bridge go on from there.
    pub(super) fn restore(&self, bridge: &Py<PyAny>, state: &[u8]) -> relive_rl::Result<()> {
        self.call(|py| {
            bridge.bind(py).call_method1(intern!(py, "restore"), (PyBytes::new(py, state),)).map(drop)
        })
    }
}
