//! Writes one checkpoint on its own thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use relive_table::{SavedCheckpoint, TableSnapshot};

use super::shared::Engine;
use crate::checkpoint::{CheckpointOutcome, Checkpoints, Job, lower_priority};
use crate::error::EngineError;
use crate::sync::{self, wall_clock};

/// The error returned when the checkpointer panics.
#[derive(Debug, thiserror::Error)]
#[error("the checkpointer panicked: {message}")]
struct Panicked {
    message: String,
}

/// Runs a job on a new thread, which starts another thread for each subsequent job. A thread writes only one
/// checkpoint, because its priority is lowered after the capture and cannot be raised again for the next one.
pub(super) fn launch(engine: &Engine, mut job: Job) {
    loop {
        let (of_thread, its_job) = (engine.clone(), job.clone());
        let Err(error) = sync::spawn("relive-checkpoint", move || run(of_thread, &its_job)) else { return };
        let Some(checkpoints) = engine.checkpoints() else { return };
        let outcome = Err(EngineError::checkpoint(error));
        let next = finish(checkpoints, &outcome);
        job.run.finish(outcome);
        match next {
            Some(next) => job = next,
            None => return,
        }
    }
}

fn run(engine: Engine, job: &Job) {
    let Some(checkpoints) = engine.checkpoints() else { return };
    let write = || write(&engine, checkpoints, job);
    let outcome = catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    if let Some(next) = finish(checkpoints, &outcome) {
        launch(&engine, next);
    }
    // A waiting caller may drop the engine and open the same location again, so this thread must not keep the
    // checkpointer alive.
    drop(engine);
    job.run.finish(outcome);
}

fn write(engine: &Engine, checkpoints: &Checkpoints, job: &Job) -> CheckpointOutcome {
    // The capture runs at normal priority, because a preempted thread that holds a lock would block all threads that
    // need the lock.
    let mut captured = engine.capture();
    checkpoints.turns.lock().captured(captured.longest_pause);
    lower_priority();
    captured.snapshot.tables.iter_mut().for_each(TableSnapshot::sort);
    (checkpoints.save)(captured.snapshot, &job.progress)
}

/// Records the result and returns the next job.
fn finish(checkpoints: &Checkpoints, outcome: &CheckpointOutcome) -> Option<Job> {
    let (next, finished) = {
        let mut turns = checkpoints.turns.lock();
        let next = turns.finish(outcome, Instant::now(), wall_clock());
        (next, turns.last().cloned())
    };
    if let Some(finished) = finished {
        let (trigger, took, longest_pause) = (finished.trigger, finished.took, finished.longest_pause);
        match outcome {
            Ok(SavedCheckpoint { location, written_bytes, .. }) => {
                tracing::info!(%location, written_bytes, ?took, ?longest_pause, %trigger, "checkpoint written");
            }
            // The failure is logged here rather than by the waiting callers, which may be gone.
            Err(error) => {
                tracing::error!(%error, ?took, %trigger, "checkpoint failed; earlier ones remain valid");
            }
        }
    }
    next
}

fn panicked(panic: &(dyn Any + Send)) -> EngineError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref().map(String::as_str));
    EngineError::checkpoint(Panicked { message: text.unwrap_or("it gave no reason").to_owned() })
}
