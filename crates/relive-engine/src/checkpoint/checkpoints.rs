//! The checkpoint settings of an engine, and its checkpoint state.

use std::fmt;
use std::time::Duration;

use std::sync::atomic::AtomicBool;

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot};

use super::clock::Clock;
use super::turns::Turns;
use crate::error::{BuildError, EngineError};
use crate::limits::MIN_CHECKPOINT_INTERVAL;
use crate::sync::Mutex;

pub(crate) type Save =
    dyn Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError> + Send + Sync;

/// The builder's checkpoint settings.
#[derive(Default)]
pub(crate) struct CheckpointSettings {
    pub(crate) save: Option<Box<Save>>,
    pub(crate) every: Option<Duration>,
    pub(crate) at_close: bool,
}

/// An engine's checkpointer, and the callers that are waiting for it.
pub(crate) struct Checkpoints {
    pub(crate) save: Box<Save>,
    pub(crate) turns: Mutex<Turns>,
    clock: Option<Clock>,
    /// Whether to write a checkpoint when the tables are closed. Tables are closed only once.
    pub(crate) at_close: AtomicBool,
}

impl CheckpointSettings {
    pub(crate) fn make(self) -> Result<Option<Checkpoints>, BuildError> {
        let Self { save, every, at_close } = self;
        let Some(save) = save else {
            return match (every, at_close) {
                (None, false) => Ok(None),
                (Some(_), _) => Err(BuildError::NoCheckpointer { option: "checkpoint_every" }),
                (None, true) => Err(BuildError::NoCheckpointer { option: "checkpoint_at_close" }),
            };
        };
        if let Some(got) = every.filter(|every| *every < MIN_CHECKPOINT_INTERVAL) {
            return Err(BuildError::CheckpointInterval { got });
        }
        let clock = every.map(Clock::new);
        Ok(Some(Checkpoints {
            save,
            turns: Mutex::new(Turns::default()),
            clock,
            at_close: AtomicBool::new(at_close),
        }))
    }
}

impl Checkpoints {
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }
}

impl fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoints").field("clock", &self.clock).finish_non_exhaustive()
    }
}
