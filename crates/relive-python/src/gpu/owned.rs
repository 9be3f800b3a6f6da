//! A value that belongs to one process, can be used by all of its threads, and can be closed.

use pyo3::prelude::*;
use relive_client::ErrorKind;

use crate::error::raise_kind;
use crate::interpreter::fork::Origin;
use crate::interpreter::lock::Brief;

/// A handle whose clones share one object, until it is closed.
pub(super) struct Shared<T: Clone> {
    value: Brief<Option<T>>,
    what: &'static str,
    origin: Origin,
}

impl<T: Clone + Send> Shared<T> {
    pub(super) fn new(what: &'static str, value: T) -> Shared<T> {
        Shared { value: Brief::new(Some(value)), what, origin: Origin::here() }
    }

    /// Returns the handle.
    ///
    /// # Errors
    /// The handle has been closed, or this is a child of the process that owns it.
    pub(super) fn get(&self, py: Python<'_>) -> PyResult<T> {
        self.origin.check(py, self.what)?;
        let closed = || raise_kind(py, ErrorKind::Closed, format!("this {} was closed", self.what));
        self.value.get().ok_or_else(closed)
    }

    /// Drops the handle; its other clones stay valid. In a child of the owning process, the handle is leaked instead.
    pub(super) fn close(&self, py: Python<'_>) {
        if self.origin.is_foreign() {
            return;
        }
        let value = self.value.take();
        py.detach(|| drop(value));
    }
}

impl<T: Clone> Drop for Shared<T> {
    fn drop(&mut self) {
        // Dropping the value in a child process would change memory that the parent process still uses.
        if self.origin.is_foreign() {
            std::mem::forget(self.value.get_mut().take());
        }
    }
}
