//! What an engine was told about checkpoints, and what it knows of them.

use std::fmt;
use std::time::Duration;

use std::sync::atomic::AtomicBool;

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot};

use super::clock::Clock;
use super::turns::Turns;
use crate::limits::MIN_CHECKPOINT_INTERVAL;
use crate::sync::Mutex;
use crate::{BuildError, EngineBuilder, EngineError};

pub(crate) type Save =
    dyn Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError> + Send + Sync;

/// What a builder was told.
#[derive(Default)]
pub(crate) struct Plan {
    save: Option<Box<Save>>,
    every: Option<Duration>,
    at_close: bool,
}

/// The checkpointer of an engine, and who waits for it.
pub(crate) struct Checkpoints {
    pub(super) save: Box<Save>,
    pub(super) turns: Mutex<Turns>,
    pub(super) clock: Option<Clock>,
    /// Whether one is to be written when the tables are closed, which happens once.
    pub(super) at_close: AtomicBool,
}

impl EngineBuilder {
    /// Has `save` write the checkpoints; it says what it wrote, and counts how far it is.
    ///
    /// It is called by one thread at a time, one of its own for each checkpoint, which has a low priority. If it panics, that
    /// checkpoint fails and the next one may work.
    #[must_use]
    pub fn checkpointer(
        mut self,
        save: impl Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.checkpoints.save = Some(Box::new(save));
        self
    }

    /// Writes a checkpoint every so often, from one such time after the engine was made, until it is closed or dropped. One that
    /// takes longer than that is not followed at once by the next: those that were missed are left out. A failure is logged,
    /// told by [`checkpoint_status`](crate::Engine::checkpoint_status), and keeps no later one from being written.
    #[must_use]
    pub fn checkpoint_every(mut self, interval: Duration) -> Self {
        self.checkpoints.every = Some(interval);
        self
    }

    /// Writes a checkpoint when the engine is [shut down](crate::Engine::shut_down).
    #[must_use]
    pub fn checkpoint_at_close(mut self, yes: bool) -> Self {
        self.checkpoints.at_close = yes;
        self
    }
}

impl Plan {
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
