//! What becomes of checkpoints, as plain data: the same in the process and over a wire.

use std::fmt;
use std::time::Duration;

use crate::snapshot::{CheckpointCounts, SavedCheckpoint};
use crate::time::Timestamp;

/// A server's checkpoints at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointStatus {
    /// The moment, by the server's clock.
    pub at: Timestamp,
    /// Whether there is something that writes them.
    pub enabled: bool,
    /// The one that is being written.
    pub running: Option<RunningCheckpoint>,
    /// Whether another one begins when the running one ends. Whoever asks now shares that one.
    pub queued: bool,
    /// The one that ended last, well or badly.
    pub last: Option<FinishedCheckpoint>,
    /// The last that was written: what a restart finds. The same as `last` unless that one failed.
    pub last_saved: Option<FinishedCheckpoint>,
    /// How many were written since the server began.
    pub num_saved: u64,
    /// How many could not be written.
    pub num_failed: u64,
    /// Time until the next one that nobody has to ask for; `None` if they are not written by the clock.
    pub next_due: Option<Duration>,
    /// Path or URL of the checkpoint with which the server began.
    pub loaded: Option<String>,
}

/// A checkpoint that is being written.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningCheckpoint {
    /// Why.
    pub trigger: CheckpointTrigger,
    /// What is being done.
    pub phase: CheckpointPhase,
    /// When it began.
    pub began_at: Timestamp,
    /// How long it has run.
    pub elapsed: Duration,
    /// How far it is.
    pub counts: CheckpointCounts,
}

/// A checkpoint that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedCheckpoint {
    /// Why.
    pub trigger: CheckpointTrigger,
    /// When it began; it holds what was in the tables shortly after.
    pub began_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The longest time for which it kept others from a table.
    pub longest_pause: Duration,
    /// What was written, or why nothing was. Earlier checkpoints stay valid then.
    pub outcome: Result<SavedCheckpoint, String>,
}

/// Why a checkpoint is written. Of several reasons the greatest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckpointTrigger {
    /// It was due.
    Interval,
    /// Somebody asked for it.
    Request,
    /// The tables are closed.
    Close,
}

/// What a checkpoint is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckpointPhase {
    /// References to the items are collected, a few at a time.
    Capturing,
    /// They are written. No table is touched any more.
    Writing,
}

impl CheckpointStatus {
    /// How long ago a checkpoint ended.
    #[must_use]
    pub fn age(&self, finished: &FinishedCheckpoint) -> Duration {
        let began = self.at.as_nanos().saturating_sub(finished.began_at.as_nanos());
        Duration::from_nanos(u64::try_from(began).unwrap_or(0)).saturating_sub(finished.took)
    }
}

impl FinishedCheckpoint {
    /// What was written.
    #[must_use]
    pub fn saved(&self) -> Option<&SavedCheckpoint> {
        self.outcome.as_ref().ok()
    }

    /// Why nothing was.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.outcome.as_ref().err().map(String::as_str)
    }
}

impl fmt::Display for CheckpointTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interval => "interval",
            Self::Request => "request",
            Self::Close => "close",
        })
    }
}

impl fmt::Display for CheckpointPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capturing => "capturing",
            Self::Writing => "writing",
        })
    }
}
