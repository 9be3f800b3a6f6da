//! Ending a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a run before it has completed its steps: from another thread, on Ctrl-C, or at a deadline. Clones are cheap and
/// share the state.
///
/// The run checks whether to stop after each item of its plan, and every 100 ms while it is waiting. A stopped run
/// returns the result so far.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Creates a stop that is not set.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Ends the run.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the run should end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
