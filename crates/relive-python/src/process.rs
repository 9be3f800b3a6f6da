//! Forks: what belongs to the parent's threads is of no use in a child.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use relive_client::ErrorKind;

use crate::error::raise_kind;

/// Forks since the first process of the line. Python counts them, since asking the system for each step would cost.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Called in the child after every fork.
#[pyfunction]
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process that something was made in.
#[derive(Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) fn here() -> Origin {
        Origin(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is a child of that process. Its threads and connections are not here, and its locks may be held for ever.
    pub(crate) fn is_foreign(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `FailedPrecondition` in a child.
    pub(crate) fn check(self, py: Python<'_>, what: &str) -> PyResult<()> {
        if self.is_foreign() {
            let text = format!(
                "this {what} was made before a fork and belongs to the parent process; make a new one here"
            );
            return Err(raise_kind(py, ErrorKind::FailedPrecondition, text));
        }
        Ok(())
    }
}
