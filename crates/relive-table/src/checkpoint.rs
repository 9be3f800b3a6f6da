//! The state of checkpoints as plain data, which has the same form within the process and over the network.

use std::fmt;
use std::time::Duration;

use crate::snapshot::{CheckpointCounts, SavedCheckpoint};
use crate::time::Timestamp;

/// The state of a server's checkpoints at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointStatus {
    /// The time at which this state was read, according to the server's clock.
    pub at: Timestamp,
    /// Whether the server has a checkpointer.
    pub enabled: bool,
    /// The checkpoint that is being written.
    pub running: Option<RunningCheckpoint>,
    /// Whether another checkpoint begins when the running one ends. A request made now shares the queued checkpoint.
    pub queued: bool,
    /// The most recent checkpoint that has ended, whether it succeeded or failed.
    pub last: Option<FinishedCheckpoint>,
    /// The last checkpoint that was written successfully, which a restart loads. It equals `last` unless `last` failed.
    pub last_saved: Option<FinishedCheckpoint>,
    /// The number of checkpoints written since the server started.
    pub num_saved: u64,
    /// The number of checkpoints that could not be written.
    pub num_failed: u64,
    /// The time until the next periodic checkpoint, or `None` if there are no periodic checkpoints.
    pub next_due: Option<Duration>,
    /// The path or URL of the checkpoint that the server loaded when it started.
    pub loaded: Option<String>,
}

/// A checkpoint that is being written.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningCheckpoint {
    /// The reason why the checkpoint is written.
    pub trigger: CheckpointTrigger,
    /// The current phase of the work.
    pub phase: CheckpointPhase,
    /// When it began.
    pub began_at: Timestamp,
    /// How long the checkpoint has been running.
    pub elapsed: Duration,
    /// Its progress.
    pub counts: CheckpointCounts,
}

/// A checkpoint that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedCheckpoint {
    /// The reason why the checkpoint was written.
    pub trigger: CheckpointTrigger,
    /// The time at which the checkpoint began. The checkpoint contains the tables as they were shortly after this time.
    pub began_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The longest time for which the checkpoint blocked a table.
    pub longest_pause: Duration,
    /// The written checkpoint, or the reason why it could not be written. After a failure, earlier checkpoints stay
    /// valid.
    pub outcome: Result<SavedCheckpoint, String>,
}

/// The reason why a checkpoint is written. If there are several reasons, the greatest one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckpointTrigger {
    /// A periodic checkpoint is due.
    Interval,
    /// A caller requested it.
    Request,
    /// The tables are being closed.
    Close,
}

/// The phase of a checkpoint that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckpointPhase {
    /// The checkpoint collects references to the items, a few at a time.
    Capturing,
    /// The checkpoint writes the items, and no longer accesses the tables.
    Writing,
}

impl CheckpointStatus {
    /// Returns how much time has passed since `finished` ended.
    #[must_use]
    pub fn age(&self, finished: &FinishedCheckpoint) -> Duration {
        let began = self.at.as_nanos().saturating_sub(finished.began_at.as_nanos());
        Duration::from_nanos(u64::try_from(began).unwrap_or(0)).saturating_sub(finished.took)
    }
}

impl FinishedCheckpoint {
    /// Returns what was written.
    #[must_use]
    pub fn saved(&self) -> Option<&SavedCheckpoint> {
        self.outcome.as_ref().ok()
    }

    /// Returns why writing failed.
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
