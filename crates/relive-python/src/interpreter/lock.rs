//! Locks that cannot deadlock with the interpreter. A thread that holds the interpreter while it waits for a lock would
//! wait forever for a holder that waits for the interpreter.
//!
//! Each type avoids this in its own way. The holder of [`Brief`] can neither have the interpreter nor acquire it. A
//! thread that waits for [`Detached`] has released the interpreter. No thread waits for [`Exclusive`].
//!
//! `cargo xtask tidy` refuses other locks in this crate (`xtask/src/tidy/absences.rs`).

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A value that threads read or change briefly.
#[derive(Default)]
pub(crate) struct Brief<T>(Mutex<T>);

impl<T> Brief<T> {
    pub(crate) const fn new(value: T) -> Brief<T> {
        Brief(Mutex::new(value))
    }

    /// Calls `work` with the value. `work` cannot use the interpreter, because types that hold it, such as `Python` and
    /// `Bound`, are not `Send`.
    pub(crate) fn with<R: Send>(&self, work: impl FnOnce(&mut T) -> R + Send) -> R {
        work(&mut self.0.lock())
    }

    /// Replaces the value with `value` and returns the old one. Dropping the old value may run Python code, which is
    /// safe outside the lock.
    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut *self.0.lock(), value)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    pub(crate) fn get(&self) -> T
    where
        T: Clone + Send,
    {
        self.with(|value| value.clone())
    }
}

impl<T: Default> Brief<T> {
    pub(crate) fn take(&self) -> T {
        self.replace(T::default())
    }
}

/// A value for users that may need the interpreter.
pub(crate) struct Detached<T>(Mutex<T>);

impl<T: Send> Detached<T> {
    pub(crate) fn new(value: T) -> Detached<T> {
        Detached(Mutex::new(value))
    }

    /// Releases the interpreter, waits for the value, and calls `work` with it.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        py.detach(|| work(&mut self.0.lock()))
    }
}

/// A value that is used by one thread at a time. That thread may run Python code in the meantime; other threads that
/// try to use the value receive an error.
pub(crate) struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Exclusive<T> {
        Exclusive(Mutex::new(value))
    }

    /// # Errors
    /// Another thread is using the value.
    pub(crate) fn lock(&self) -> PyResult<MutexGuard<'_, T>> {
        self.0.try_lock().ok_or_else(|| {
            PyRuntimeError::new_err(
                "another thread is using it; only one thread at a time can use a writer, a sampler, a loader or a batch",
            )
        })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}
