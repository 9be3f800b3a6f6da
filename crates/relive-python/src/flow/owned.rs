//! A flow that a Python object owns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use pyo3::prelude::*;
use relive_flow::Flow;

use super::source::Item;
use crate::interpreter::finalization;
use crate::interpreter::fork::Origin;
use crate::interpreter::lock::Brief;

/// How long to wait for the threads of a flow to end.
const GRACE: Duration = Duration::from_secs(1);

/// A flow that one thread at a time uses. It is dropped without the interpreter, which its threads may need to end.
pub(super) struct OwnedFlow<T: Send + 'static = Item> {
    state: Brief<State<T>>,
    origin: Origin,
    /// Whether the last pull was interrupted, so that the end of the flow is not waited for.
    is_interrupted: AtomicBool,
}

/// Where the flow is.
pub(super) enum State<T = Item> {
    Here(Flow<T>),
    /// A thread uses it, or it has become a part of another flow.
    Taken,
    Closed,
}

impl<T: Send> OwnedFlow<T> {
    pub(super) fn new(flow: Flow<T>) -> OwnedFlow<T> {
        let (origin, is_interrupted) = (Origin::here(), AtomicBool::new(false));
        OwnedFlow { state: Brief::new(State::Here(flow)), origin, is_interrupted }
    }

    /// Takes the flow, if it is here.
    ///
    /// # Errors
    /// In a child of the process that created the flow.
    pub(super) fn take(&self, py: Python<'_>) -> PyResult<State<T>> {
        self.origin.check(py, "stream")?;
        Ok(self.state.with(|state| match std::mem::replace(state, State::Taken) {
            State::Closed => {
                *state = State::Closed;
                State::Closed
            }
            found => found,
        }))
    }

    /// Puts the flow back, unless it was closed in the meantime.
    pub(super) fn put(&self, py: Python<'_>, flow: Flow<T>) {
        let unwanted = self.state.with(|state| match state {
            State::Closed => Some(flow),
            State::Here(_) | State::Taken => {
                *state = State::Here(flow);
                None
            }
        });
        if let Some(flow) = unwanted {
            end(py, flow, self.patience());
        }
    }

    /// Records whether a signal handler has interrupted the current pull.
    pub(super) fn set_interrupted(&self, is_interrupted: bool) {
        self.is_interrupted.store(is_interrupted, Ordering::Relaxed);
    }

    fn patience(&self) -> Duration {
        if self.is_interrupted.load(Ordering::Relaxed) { Duration::ZERO } else { GRACE }
    }

    /// Closes the flow: ends its threads. A thread that does not end within a second is abandoned; after an interrupted
    /// pull, the threads end in the background. Returns whether all threads have ended.
    pub(super) fn close(&self, py: Python<'_>) -> bool {
        if let State::Here(flow) = self.state.replace(State::Closed) {
            if self.origin.is_foreign() {
                // The threads that must end belong to the parent process.
                std::mem::forget(flow);
            } else {
                return end(py, flow, self.patience());
            }
        }
        true
    }
}

impl<T: Send> Drop for OwnedFlow<T> {
    fn drop(&mut self) {
        finalization::park_when_finalized();
        Python::try_attach(|py| self.close(py));
    }
}

/// Drops a flow, and returns whether its threads have ended in this time.
fn end<T: Send + 'static>(py: Python<'_>, flow: Flow<T>, patience: Duration) -> bool {
    let (done, is_done) = sync_channel(1);
    let end = move || {
        // The clean-up of an iterator may outlast the interpreter.
        finalization::park_when_finalized();
        drop(flow);
        // The receiver may have stopped waiting.
        let _ = done.send(());
    };
    py.detach(move || {
        // Without a thread, `spawn` drops the flow here.
        let started = std::thread::Builder::new().name("relive-flow-end".to_owned()).spawn(end);
        started.is_err() || is_done.recv_timeout(patience).is_ok()
    })
}
