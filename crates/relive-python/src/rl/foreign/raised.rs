//! Exceptions of Python code on their way through Rust.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
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
}
