//! Locks in an order in which no thread can wait for ever: whoever waits for a lock with the interpreter in hand
//! would wait for ever for a holder that waits for the interpreter.
//!
//! Each type is a way out. What holds [`Brief`] cannot have the interpreter, nor ask for it. What waits for
//! [`Detached`] has let go of the interpreter. Nobody waits for [`Exclusive`].

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A value that threads read or change for a moment.
#[derive(Default)]
pub(crate) struct Brief<T>(Mutex<T>);

impl<T> Brief<T> {
    pub(crate) const fn new(value: T) -> Brief<T> {
        Brief(Mutex::new(value))
    }

    /// Runs `work` with the value. It cannot use the interpreter: what has it, such as `Python` and `Bound`, is not
    /// `Send`.
    pub(crate) fn with<R: Send>(&self, work: impl FnOnce(&mut T) -> R + Send) -> R {
        work(&mut self.0.lock())
    }

    /// Puts `value` in the place of the one that is returned. To drop that may run code of Python, which is fine by
    /// then.
    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut *self.0.lock(), value)
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

/// A value that may need the interpreter while a thread uses it.
pub(crate) struct Detached<T>(Mutex<T>);

impl<T: Send> Detached<T> {
    pub(crate) fn new(value: T) -> Detached<T> {
        Detached(Mutex::new(value))
    }

    /// Lets go of the interpreter, waits for the value and runs `work` with it.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        py.detach(|| work(&mut self.0.lock()))
    }
}

/// A value of which one thread at a time makes use, which may run code of Python meanwhile. Others get an error.
pub(crate) struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Exclusive<T> {
        Exclusive(Mutex::new(value))
    }

    /// # Errors
    /// Another thread uses it.
    pub(crate) fn lock(&self) -> PyResult<MutexGuard<'_, T>> {
        self.0.try_lock().ok_or_else(|| {
            PyRuntimeError::new_err(
                "it is used by another thread at this moment; writers, samplers and batches belong to one thread at a time",
            )
        })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}
