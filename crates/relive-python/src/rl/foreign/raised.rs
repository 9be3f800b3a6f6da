//! Propagates exceptions from Python code through Rust.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_rl::RlError;

use crate::interpreter::finalization;
use crate::interpreter::lock::Brief;

/// The first exception that Python code raised when Rust called it, and the calls in progress. Clones share this state.
#[derive(Clone, Default)]
pub(in crate::rl) struct Raised {
    first: Arc<Brief<Option<(PyErr, String)>>>,
    calls: Arc<Brief<Vec<Call>>>,
}

/// The name of a call, and the time at which it started.
type Call = (Arc<str>, Instant);

/// A call to Python code that is in progress.
pub(super) struct CallInProgress<'a> {
    raised: &'a Raised,
    call: Call,
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.raised.calls.with(|calls| {
            if let Some(place) = calls.iter().position(|call| *call == self.call) {
                calls.swap_remove(place);
            }
        });
    }
}

impl Raised {
    /// Stores `error` if it is the first exception, and returns its text for Rust.
    pub(in crate::rl) fn keep(&self, error: PyErr) -> String {
        let text = error.to_string();
        let mut error = Some((error, text.clone()));
        self.first.with(|first| {
            if first.is_none() {
                *first = error.take();
            }
        });
        text
    }

    /// Returns the text of the stored exception, if there is one.
    pub(super) fn text(&self) -> Option<String> {
        self.first.with(|first| first.as_ref().map(|(_, text)| text.clone()))
    }

    pub(in crate::rl) fn take(&self) -> Option<PyErr> {
        self.first.take().map(|(error, _)| error)
    }

    /// Calls Python code and stores its exception.
    pub(in crate::rl) fn call<T>(
        &self,
        code: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> relive_rl::Result<T> {
        finalization::attach_in_turn(code).map_err(|error| RlError::Foreign(self.keep(error)))
    }

    /// Like [`call`](Self::call), but [`waits`](Self::waits) lists the call while it is in progress.
    pub(in crate::rl) fn call_named<T>(
        &self,
        name: &Arc<str>,
        code: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> relive_rl::Result<T> {
        let _doing = self.begin_call(name);
        self.call(code)
    }

    /// Records that a call with the given name has begun. The call ends when the returned value is dropped.
    pub(super) fn begin_call(&self, name: &Arc<str>) -> CallInProgress<'_> {
        let call = (Arc::clone(name), Instant::now());
        self.calls.with(|calls| calls.push(call.clone()));
        CallInProgress { raised: self, call }
    }

    /// Returns the calls that have taken at least `least`, as text, or `None` if there are none.
    pub(in crate::rl) fn waits(&self, least: Duration) -> Option<String> {
        let calls = self.calls.get();
        let long = calls.iter().filter(|(_, since)| since.elapsed() >= least);
        let texts: Vec<String> =
            long.map(|(name, since)| format!("{name} for {} s", since.elapsed().as_secs())).collect();
        (!texts.is_empty()).then(|| texts.join(" and "))
    }

    /// Returns the state from which a policy's or learner's bridge is resumed. An error is stored, and prevents the run
    /// from being saved.
    pub(super) fn save(&self, bridge: &Py<PyAny>) -> Vec<u8> {
        let saved = self.call(|py| bridge.bind(py).call_method0(intern!(py, "save"))?.extract::<Vec<u8>>());
        saved.unwrap_or_default()
    }

    /// Restores a bridge from a saved state.
    pub(super) fn restore(&self, bridge: &Py<PyAny>, state: &[u8]) -> relive_rl::Result<()> {
        self.call(|py| {
            bridge.bind(py).call_method1(intern!(py, "restore"), (PyBytes::new(py, state),)).map(drop)
        })
    }
}
