//! The state of checkpoints, in messages.

use std::time::Duration;

use relive_table::{
    CheckpointCounts, CheckpointPhase, CheckpointStatus, CheckpointTrigger, FinishedCheckpoint,
    RunningCheckpoint, SavedCheckpoint, Timestamp,
};

use crate::v1::finished_checkpoint::Outcome;
use crate::v1::running_checkpoint::Phase;
use crate::{WireError, v1};

/// Converts a status to a message.
#[must_use]
pub fn to_wire(status: &CheckpointStatus) -> v1::CheckpointStatus {
    let CheckpointStatus {
        at,
        enabled,
        running,
        queued,
        last,
        last_saved,
        next_due,
        loaded,
        num_saved,
        num_failed,
    } = status;
    v1::CheckpointStatus {
        at_ns: at.as_nanos(),
        enabled: *enabled,
        running: running.as_ref().map(running_to_wire),
        queued: *queued,
        last: last.as_ref().map(finished_to_wire),
        last_saved: last_saved.as_ref().filter(|saved| last.as_ref() != Some(saved)).map(finished_to_wire),
        next_due_ms: next_due.map(|due| u64::try_from(due.as_millis()).unwrap_or(u64::MAX)),
        loaded: loaded.clone().unwrap_or_default(),
        num_saved: *num_saved,
        num_failed: *num_failed,
    }
}

/// Converts a message to a status.
///
/// # Errors
/// A checkpoint does not have a known reason, phase or outcome, because the server has a different version.
pub fn from_wire(message: v1::CheckpointStatus) -> Result<CheckpointStatus, WireError> {
    let last = message.last.map(finished_from_wire).transpose()?;
    let last_saved = message.last_saved.map(finished_from_wire).transpose()?;
    Ok(CheckpointStatus {
        at: Timestamp::from_nanos(message.at_ns),
        enabled: message.enabled,
        running: message.running.map(|running| running_from_wire(&running)).transpose()?,
        queued: message.queued,
        last_saved: last_saved.or_else(|| last.clone().filter(|last| last.outcome.is_ok())),
        last,
        next_due: message.next_due_ms.map(Duration::from_millis),
        num_saved: message.num_saved,
        num_failed: message.num_failed,
        loaded: Some(message.loaded).filter(|location| !location.is_empty()),
    })
}

fn running_to_wire(running: &RunningCheckpoint) -> v1::RunningCheckpoint {
    let CheckpointCounts { items_total, items_done, bytes_total, bytes_done } = running.counts;
    let phase = match running.phase {
        CheckpointPhase::Capturing => Phase::Capturing,
        CheckpointPhase::Writing => Phase::Writing,
    };
    v1::RunningCheckpoint {
        trigger: trigger_to_wire(running.trigger).into(),
        phase: phase.into(),
        began_at_ns: running.began_at.as_nanos(),
        elapsed_us: micros(running.elapsed),
        items_done,
        items_total,
        bytes_done,
        bytes_total,
    }
}

fn running_from_wire(message: &v1::RunningCheckpoint) -> Result<RunningCheckpoint, WireError> {
    Ok(RunningCheckpoint {
        trigger: trigger_from_wire(message.trigger())?,
        phase: match message.phase() {
            Phase::Capturing => CheckpointPhase::Capturing,
            Phase::Writing => CheckpointPhase::Writing,
            Phase::Unspecified => return Err(unknown("phase")),
        },
        began_at: Timestamp::from_nanos(message.began_at_ns),
        elapsed: Duration::from_micros(message.elapsed_us),
        counts: CheckpointCounts {
            items_total: message.items_total,
            items_done: message.items_done,
            bytes_total: message.bytes_total,
            bytes_done: message.bytes_done,
        },
    })
}

fn finished_to_wire(finished: &FinishedCheckpoint) -> v1::FinishedCheckpoint {
    let outcome = match &finished.outcome {
        Ok(SavedCheckpoint { location, written_bytes, total_bytes }) => Outcome::Saved(v1::SavedCheckpoint {
            location: location.clone(),
            written_bytes: *written_bytes,
            total_bytes: *total_bytes,
        }),
        Err(error) => Outcome::Error(error.clone()),
    };
    v1::FinishedCheckpoint {
        trigger: trigger_to_wire(finished.trigger).into(),
        began_at_ns: finished.began_at.as_nanos(),
        took_us: micros(finished.took),
        longest_pause_us: micros(finished.longest_pause),
        outcome: Some(outcome),
    }
}

fn finished_from_wire(message: v1::FinishedCheckpoint) -> Result<FinishedCheckpoint, WireError> {
    Ok(FinishedCheckpoint {
        trigger: trigger_from_wire(message.trigger())?,
        began_at: Timestamp::from_nanos(message.began_at_ns),
        took: Duration::from_micros(message.took_us),
        longest_pause: Duration::from_micros(message.longest_pause_us),
        outcome: match message.outcome {
            Some(Outcome::Saved(v1::SavedCheckpoint { location, written_bytes, total_bytes })) => {
                Ok(SavedCheckpoint { location, written_bytes, total_bytes })
            }
            Some(Outcome::Error(error)) => Err(error),
            None => return Err(unknown("outcome")),
        },
    })
}

fn trigger_to_wire(trigger: CheckpointTrigger) -> v1::CheckpointTrigger {
    match trigger {
        CheckpointTrigger::Interval => v1::CheckpointTrigger::Interval,
        CheckpointTrigger::Request => v1::CheckpointTrigger::Request,
        CheckpointTrigger::Close => v1::CheckpointTrigger::Close,
    }
}

fn trigger_from_wire(trigger: v1::CheckpointTrigger) -> Result<CheckpointTrigger, WireError> {
    match trigger {
        v1::CheckpointTrigger::Interval => Ok(CheckpointTrigger::Interval),
        v1::CheckpointTrigger::Request => Ok(CheckpointTrigger::Request),
        v1::CheckpointTrigger::Close => Ok(CheckpointTrigger::Close),
        v1::CheckpointTrigger::Unspecified => Err(unknown("trigger")),
    }
}

fn unknown(what: &'static str) -> WireError {
    WireError::CheckpointStatus { what }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(outcome: Result<SavedCheckpoint, String>) -> FinishedCheckpoint {
        FinishedCheckpoint {
            trigger: CheckpointTrigger::Interval,
            began_at: Timestamp::from_nanos(7),
            took: Duration::from_micros(8),
            longest_pause: Duration::from_micros(9),
            outcome,
        }
    }

    fn saved() -> FinishedCheckpoint {
        finished(Ok(SavedCheckpoint { location: "/c".to_owned(), written_bytes: 10, total_bytes: 11 }))
    }

    #[test]
    fn a_checkpoint_status_round_trips() {
        let running = RunningCheckpoint {
            trigger: CheckpointTrigger::Close,
            phase: CheckpointPhase::Writing,
            began_at: Timestamp::from_nanos(-1),
            elapsed: Duration::from_micros(5),
            counts: CheckpointCounts { items_total: 1, items_done: 2, bytes_total: 3, bytes_done: 4 },
        };
        let failed = finished(Err("disk full".to_owned()));
        for last in [None, Some(saved()), Some(failed)] {
            let status = CheckpointStatus {
                num_saved: 3,
                num_failed: 4,
                at: Timestamp::from_nanos(99),
                enabled: true,
                running: Some(running.clone()),
                queued: last.is_some(),
                last_saved: last.as_ref().map(|_| saved()),
                last,
                next_due: Some(Duration::ZERO),
                loaded: Some("/b".to_owned()),
            };
            assert_eq!(from_wire(to_wire(&status)).unwrap(), status);
        }
        assert_eq!(from_wire(v1::CheckpointStatus::default()).unwrap(), CheckpointStatus::default());
    }

    #[test]
    fn unsupported_outcomes_are_reported() {
        let mut message = to_wire(&CheckpointStatus { last: Some(saved()), ..CheckpointStatus::default() });
        message.last.as_mut().unwrap().outcome = None;
        let error = from_wire(message).unwrap_err().to_string();
        assert_eq!(error, "the checkpoint has an outcome that this version does not support");
    }
}
