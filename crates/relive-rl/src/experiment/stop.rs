//! Ending a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Result, RlError};

/// Ends a run before all its steps are made: from another thread, on Ctrl-C, at a deadline. Cheap to clone; clones share it.
///
/// The run looks at it after every step in an environment, and its outcome is what there is by then; an episode that was
/// going on is not counted.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// One that has not been told.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Ends the run.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`Stopped`](RlError::Stopped) when the run is to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_stopped() { Err(RlError::Stopped) } else { Ok(()) }
    }
}
