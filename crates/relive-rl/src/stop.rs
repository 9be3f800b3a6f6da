//! Ending a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a run before it has completed its steps: from another thread, on a signal, at a deadline, or when a goal is
/// reached. Clones are cheap and share the state.
///
/// The run checks whether to stop after each item of its plan, and every 100 ms while it is waiting. A stopped run
/// returns the result so far.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    is_stopped: AtomicBool,
    is_at_once: AtomicBool,
}

impl Stop {
    /// Creates a stop that is not set.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Ends the run. An evaluation in progress is discarded, and there is no final one.
    pub fn stop(&self) {
        self.0.is_at_once.store(true, Ordering::Relaxed);
        self.complete();
    }

    /// Ends the run as if it had completed its steps, with the last evaluation.
    pub fn complete(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether the run should end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    /// Returns whether the run should end without further evaluations.
    pub(crate) fn is_at_once(&self) -> bool {
        self.0.is_at_once.load(Ordering::Relaxed)
    }
}
