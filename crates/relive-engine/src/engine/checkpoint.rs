//! Requests and status of checkpoints.

use std::sync::atomic::Ordering;
use std::time::Instant;

use relive_table::{CheckpointStatus, CheckpointTrigger, SavedCheckpoint};

use super::checkpoint_thread::launch;
use super::shared::Engine;
use crate::checkpoint::PendingCheckpoint;
use crate::error::EngineError;
use crate::sync::wall_clock;

impl Engine {
    /// Writes a snapshot of all tables and returns the checkpointer's result. Blocks until the checkpoint is written;
    /// the tables stay in use in the meantime. See [`request_checkpoint`](Self::request_checkpoint).
    ///
    /// # Errors
    /// `InvalidArgument` without a checkpointer, or the checkpointer's error.
    pub fn checkpoint(&self) -> Result<SavedCheckpoint, EngineError> {
        self.request_checkpoint()?.wait()
    }

    /// Requests a checkpoint. It contains everything that is in the tables now, and possibly items that are inserted
    /// slightly later.
    ///
    /// One checkpoint is written at a time, on its own thread. All requests that arrive while it is being written share
    /// the next one. Requests also work on a closed engine.
    ///
    /// ```
    /// use relive_engine::Engine;
    /// use relive_table::{SavedCheckpoint, TableConfig};
    ///
    /// let engine = Engine::builder()
    ///     .table(TableConfig::queue("steps", 100))
    ///     .checkpointer(|snapshot, _progress| {
    ///         let location = format!("{} tables", snapshot.tables.len());
    ///         Ok(SavedCheckpoint { location, written_bytes: 0, total_bytes: 0 })
    ///     })
    ///     .build()?;
    /// let saved = engine.request_checkpoint()?.wait()?;
    /// assert_eq!(saved.location, "1 tables");
    /// assert_eq!(engine.checkpoint_status().last.unwrap().saved(), Some(&saved));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` without a checkpointer.
    pub fn request_checkpoint(&self) -> Result<PendingCheckpoint, EngineError> {
        self.begin_checkpoint(CheckpointTrigger::Request).ok_or_else(|| {
            let reason = "no checkpointer is configured for this server: it keeps its tables in memory only";
            EngineError::CheckpointRefused { reason: reason.to_owned() }
        })
    }

    /// Returns the checkpoint in progress, the last one, and the time of the next one.
    #[must_use]
    pub fn checkpoint_status(&self) -> CheckpointStatus {
        let loaded = self.loaded().map(str::to_owned);
        let Some(checkpoints) = self.checkpoints() else {
            return CheckpointStatus { loaded, ..CheckpointStatus::default() };
        };
        let now = Instant::now();
        let next_due = checkpoints.clock().and_then(|clock| clock.next_due(now));
        let turns = checkpoints.turns.lock();
        let (num_saved, num_failed) = turns.counts();
        CheckpointStatus {
            at: wall_clock(),
            enabled: true,
            running: turns.running(now),
            queued: turns.is_queued(),
            last: turns.last().cloned(),
            last_saved: turns.last_saved().cloned(),
            num_saved,
            num_failed,
            next_due,
            loaded,
        }
    }

    /// Permanently closes all tables and begins the last checkpoint if
    /// [`checkpoint_at_close`](crate::EngineBuilder::checkpoint_at_close) is set; the checkpoint contains every item
    /// that was confirmed. Returns `None` if the option is not set, and on a second call.
    pub fn shut_down(&self) -> Option<PendingCheckpoint> {
        self.close();
        let wanted = self.checkpoints()?.at_close.swap(false, Ordering::Relaxed);
        wanted.then(|| self.begin_checkpoint(CheckpointTrigger::Close)).flatten()
    }

    /// Joins the next checkpoint. Returns `None` without a checkpointer.
    fn begin_checkpoint(&self, trigger: CheckpointTrigger) -> Option<PendingCheckpoint> {
        let checkpoints = self.checkpoints()?;
        let (run, job) = checkpoints.turns.lock().join(trigger, Instant::now(), wall_clock());
        if let Some(job) = job {
            launch(self, job);
        }
        Some(PendingCheckpoint::new(run))
    }
}

/// Begins a scheduled checkpoint.
pub(super) fn begin_due(engine: &Engine) -> Option<PendingCheckpoint> {
    engine.begin_checkpoint(CheckpointTrigger::Interval)
}
