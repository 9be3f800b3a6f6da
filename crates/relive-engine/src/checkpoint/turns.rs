//! Decides which callers share which checkpoint. This module consists of plain data that is changed under one lock.
//!
//! One checkpoint runs at a time. A request that arrives during a checkpoint joins the next one, because the running
//! one may already have captured the tables without the caller's latest writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_table::{
    CheckpointPhase, CheckpointProgress, CheckpointTrigger, FinishedCheckpoint, RunningCheckpoint, Timestamp,
};

use super::pending::{CheckpointOutcome, Run};

/// The running checkpoint, the next one, and the result of the last one.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    running: Option<ActiveCheckpoint>,
    next: Option<Next>,
    last: Option<FinishedCheckpoint>,
    last_saved: Option<FinishedCheckpoint>,
    num_saved: u64,
    num_failed: u64,
}

/// The data that a checkpoint's thread needs.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) run: Arc<Run>,
    pub(crate) progress: Arc<CheckpointProgress>,
}

#[derive(Debug)]
struct ActiveCheckpoint {
    job: Job,
    trigger: CheckpointTrigger,
    phase: CheckpointPhase,
    began_at: Timestamp,
    since: Instant,
    longest_pause: Duration,
}

#[derive(Debug)]
struct Next {
    run: Arc<Run>,
    trigger: CheckpointTrigger,
}

impl Turns {
    /// Joins the next checkpoint. If none is running, also begins it; the caller must then run the returned job.
    pub(crate) fn join(
        &mut self,
        trigger: CheckpointTrigger,
        now: Instant,
        clock: Timestamp,
    ) -> (Arc<Run>, Option<Job>) {
        let next = self.next.get_or_insert_with(|| Next { run: Arc::new(Run::new()), trigger });
        next.trigger = next.trigger.max(trigger);
        let run = Arc::clone(&next.run);
        let job = if self.running.is_none() { self.begin(now, clock) } else { None };
        (run, job)
    }

    /// Records that the running checkpoint has collected all references to items and is now writing them.
    pub(crate) fn captured(&mut self, longest_pause: Duration) {
        if let Some(running) = &mut self.running {
            running.phase = CheckpointPhase::Writing;
            running.longest_pause = longest_pause;
        }
    }

    /// Ends the running checkpoint, and begins the next one if it was requested. The caller of this function must then
    /// run that job, too.
    pub(crate) fn finish(
        &mut self,
        outcome: &CheckpointOutcome,
        now: Instant,
        clock: Timestamp,
    ) -> Option<Job> {
        if let Some(running) = self.running.take() {
            let finished = FinishedCheckpoint {
                trigger: running.trigger,
                began_at: running.began_at,
                took: now.saturating_duration_since(running.since),
                longest_pause: running.longest_pause,
                outcome: outcome.clone().map_err(|error| error.to_string()),
            };
            if outcome.is_ok() {
                self.last_saved = Some(finished.clone());
                self.num_saved += 1;
            } else {
                self.num_failed += 1;
            }
            self.last = Some(finished);
        }
        self.begin(now, clock)
    }

    fn begin(&mut self, since: Instant, began_at: Timestamp) -> Option<Job> {
        let Next { run, trigger } = self.next.take()?;
        let job = Job { run, progress: Arc::default() };
        self.running = Some(ActiveCheckpoint {
            job: job.clone(),
            trigger,
            phase: CheckpointPhase::Capturing,
            began_at,
            since,
            longest_pause: Duration::ZERO,
        });
        Some(job)
    }

    pub(crate) fn running(&self, now: Instant) -> Option<RunningCheckpoint> {
        self.running.as_ref().map(|running| RunningCheckpoint {
            trigger: running.trigger,
            phase: running.phase,
            began_at: running.began_at,
            elapsed: now.saturating_duration_since(running.since),
            counts: running.job.progress.counts(),
        })
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.next.is_some()
    }

    pub(crate) fn last(&self) -> Option<&FinishedCheckpoint> {
        self.last.as_ref()
    }

    /// Returns the numbers of written and of failed checkpoints.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.num_saved, self.num_failed)
    }

    pub(crate) fn last_saved(&self) -> Option<&FinishedCheckpoint> {
        self.last_saved.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use relive_table::SavedCheckpoint;

    use super::*;
    use crate::error::EngineError;

    fn saved() -> CheckpointOutcome {
        Ok(SavedCheckpoint { location: "/c".to_owned(), written_bytes: 3, total_bytes: 9 })
    }

    fn failed() -> CheckpointOutcome {
        Err(EngineError::checkpoint(std::io::Error::other("disk full")))
    }

    const CLOCK: Timestamp = Timestamp::EPOCH;

    #[test]
    fn a_caller_during_a_running_checkpoint_joins_the_next_one() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        let (first, job) = turns.join(CheckpointTrigger::Request, now, CLOCK);
        assert!(Arc::ptr_eq(&job.expect("nothing runs").run, &first));
        let (second, none) = turns.join(CheckpointTrigger::Interval, now, CLOCK);
        let (third, none_either) = turns.join(CheckpointTrigger::Request, now, CLOCK);
        assert!(none.is_none() && none_either.is_none(), "one at a time");
        assert!(Arc::ptr_eq(&second, &third) && !Arc::ptr_eq(&first, &second));
        let job = turns.finish(&saved(), now, CLOCK).expect("two have asked");
        assert!(Arc::ptr_eq(&job.run, &second));
        assert_eq!(turns.running(now).map(|running| running.trigger), Some(CheckpointTrigger::Request));
        assert!(!turns.is_queued());
        assert!(turns.finish(&saved(), now, CLOCK).is_none(), "there has been no request since");
        assert!(turns.running(now).is_none());
    }

    #[test]
    fn a_failure_is_reported_and_the_last_saved_checkpoint_is_remembered() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        for outcome in [saved(), failed()] {
            turns.join(CheckpointTrigger::Interval, now, CLOCK);
            turns.captured(Duration::from_millis(2));
            assert_eq!(turns.running(now).map(|running| running.phase), Some(CheckpointPhase::Writing));
            turns.finish(&outcome, now + Duration::from_secs(3), CLOCK);
        }
        let last = turns.last().expect("two have ended");
        assert_eq!(last.error(), Some("the checkpoint was not written: disk full"));
        assert_eq!((last.took, last.longest_pause), (Duration::from_secs(3), Duration::from_millis(2)));
        let saved = turns.last_saved().and_then(FinishedCheckpoint::saved).expect("one was written");
        assert_eq!((saved.location.as_str(), turns.counts()), ("/c", (1, 1)));
    }
}
