//! Values that belong to one process, and to one thread at a time. After a fork, the state of the parent's threads is
//! useless in the child.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::MutexGuard;
use pyo3::prelude::*;
use relive_client::ErrorKind;

use super::lock::Exclusive;
use crate::error::raise_kind;

/// The number of forks since the first process. Handlers that Python calls count the forks, because a system call for
/// each step would be too slow.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Called in the parent before every fork.
#[pyfunction]
pub(crate) fn before_fork() {
    relive_client::note_fork();
}

/// Called in the child after every fork.
#[pyfunction]
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    relive_checkpoint::close_locks_after_fork();
}

/// The process that created a value.
#[derive(Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) fn here() -> Origin {
        Origin(FORKS.load(Ordering::Relaxed))
    }

    /// Returns whether this is a child of that process. The parent's threads and connections do not exist here, and its
    /// locks may be held forever.
    pub(crate) fn is_foreign(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `FailedPrecondition` in a child.
    pub(crate) fn check(self, py: Python<'_>, what: &str) -> PyResult<()> {
        if self.is_foreign() {
            let text = format!(
                "this {what} was created before a fork and belongs to the parent process; create a new one in this process"
            );
            return Err(raise_kind(py, ErrorKind::FailedPrecondition, text));
        }
        Ok(())
    }
}

/// A value that belongs to one process and is used by one thread at a time, until it is taken out.
pub(crate) struct Owned<T> {
    value: Exclusive<Option<T>>,
    what: &'static str,
    origin: Origin,
}

impl<T> Owned<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Owned<T> {
        Owned { value: Exclusive::new(Some(value)), what, origin: Origin::here() }
    }

    /// Returns the value, or `None` once it has been taken out.
    ///
    /// # Errors
    /// Fails in a child of the owning process. Also fails while another thread is using the value, because a wait that
    /// holds the interpreter might never end.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<T>>> {
        self.origin.check(py, self.what)?;
        self.value.lock()
    }

    /// Takes the value out and drops it without the interpreter. In a child process, the value is leaked instead.
    ///
    /// # Errors
    /// Fails while another thread is using the value.
    pub(crate) fn end(&self, py: Python<'_>) -> PyResult<()>
    where
        T: Send,
    {
        let value = self.value.lock()?.take();
        if self.origin.is_foreign() {
            std::mem::forget(value);
        } else {
            py.detach(|| drop(value));
        }
        Ok(())
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.origin.is_foreign() {
            std::mem::forget(self.value.get_mut().take());
        }
    }
}
