//! Formats a server's checkpoints for people and for programs.

use std::time::Duration;

use relive_client::{CheckpointCounts, CheckpointStatus, FinishedCheckpoint, RunningCheckpoint};
use serde::Serialize;

use crate::units::{bytes, count, counted, time};

/// Returns the lines about checkpoints. There are none for a server that neither writes checkpoints nor loaded one.
pub(in crate::commands) fn lines(status: &CheckpointStatus) -> Vec<String> {
    if !status.enabled {
        return status
            .loaded
            .iter()
            .map(|loaded| format!("started from {loaded}; writes no checkpoints"))
            .collect();
    }
    let mut lines: Vec<String> = status.running.iter().map(running).collect();
    let next = match (status.queued, status.next_due) {
        (true, _) => "; another one is queued".to_owned(),
        (false, Some(due)) => format!("; the next in {}", time(due)),
        (false, None) => String::new(),
    };
    lines.push(format!("{}{next}", last(status)));
    lines
}

fn running(running: &RunningCheckpoint) -> String {
    let RunningCheckpoint { trigger, phase, elapsed, counts, .. } = running;
    let CheckpointCounts { items_total, items_done, bytes_total, bytes_done } = *counts;
    let far = match items_total {
        0 => String::new(),
        _ => format!(
            ": {} of {}, {} of {}",
            count(items_done),
            counted(items_total, "item"),
            bytes(bytes_done),
            bytes(bytes_total)
        ),
    };
    format!("checkpoint ({trigger}): {phase} for {}{far}", time(*elapsed))
}

fn last(status: &CheckpointStatus) -> String {
    let Some(last) = &status.last else {
        let since = status.loaded.as_ref().map(|loaded| format!(" since the server started from {loaded}"));
        return format!("no checkpoint yet{}", since.unwrap_or_default());
    };
    let ago = time(status.age(last));
    let saved = match &last.outcome {
        Ok(saved) => saved,
        Err(error) => {
            let saved = status.last_saved.as_ref().and_then(FinishedCheckpoint::saved);
            let before = match saved.map(|saved| &saved.location).or(status.loaded.as_ref()) {
                Some(location) => format!("{location} remains valid"),
                None => "there is no earlier one".to_owned(),
            };
            return format!("last checkpoint failed {ago} ago: {error}; {before}");
        }
    };
    format!(
        "last checkpoint {ago} ago: {}, {} of {} written in {}, longest pause {}",
        saved.location,
        bytes(saved.written_bytes),
        bytes(saved.total_bytes),
        time(last.took),
        millis(last.longest_pause),
    )
}

/// Formats short times: `0.8 ms`.
fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

/// A server's checkpoints as fields, for programs.
#[derive(Serialize)]
pub(in crate::commands) struct CheckpointFields<'a> {
    enabled: bool,
    running: Option<RunningFields>,
    queued: bool,
    last: Option<FinishedFields<'a>>,
    last_saved: Option<FinishedFields<'a>>,
    next_due_s: Option<f64>,
    loaded: Option<&'a str>,
}

#[derive(Serialize)]
struct RunningFields {
    trigger: String,
    phase: String,
    began_at_s: f64,
    elapsed_s: f64,
    items_done: u64,
    items_total: u64,
    bytes_done: u64,
    bytes_total: u64,
}

#[derive(Serialize)]
struct FinishedFields<'a> {
    trigger: String,
    began_at_s: f64,
    took_s: f64,
    longest_pause_s: f64,
    location: Option<&'a str>,
    written_bytes: Option<u64>,
    total_bytes: Option<u64>,
    error: Option<&'a str>,
}

pub(in crate::commands) fn fields(status: &CheckpointStatus) -> CheckpointFields<'_> {
    CheckpointFields {
        enabled: status.enabled,
        running: status.running.as_ref().map(running_fields),
        queued: status.queued,
        last: status.last.as_ref().map(finished_fields),
        last_saved: status.last_saved.as_ref().map(finished_fields),
        next_due_s: status.next_due.map(|due| due.as_secs_f64()),
        loaded: status.loaded.as_deref(),
    }
}

fn running_fields(running: &RunningCheckpoint) -> RunningFields {
    let CheckpointCounts { items_total, items_done, bytes_total, bytes_done } = running.counts;
    RunningFields {
        trigger: running.trigger.to_string(),
        phase: running.phase.to_string(),
        began_at_s: running.began_at.as_nanos() as f64 / 1e9,
        elapsed_s: running.elapsed.as_secs_f64(),
        items_done,
        items_total,
        bytes_done,
        bytes_total,
    }
}

fn finished_fields(finished: &FinishedCheckpoint) -> FinishedFields<'_> {
    let saved = finished.saved();
    FinishedFields {
        trigger: finished.trigger.to_string(),
        began_at_s: finished.began_at.as_nanos() as f64 / 1e9,
        took_s: finished.took.as_secs_f64(),
        longest_pause_s: finished.longest_pause.as_secs_f64(),
        location: saved.map(|saved| saved.location.as_str()),
        written_bytes: saved.map(|saved| saved.written_bytes),
        total_bytes: saved.map(|saved| saved.total_bytes),
        error: finished.error(),
    }
}

#[cfg(test)]
mod tests {
    use relive_client::{CheckpointPhase, CheckpointTrigger, SavedCheckpoint};
    use relive_table::Timestamp;

    use super::*;

    fn saved() -> FinishedCheckpoint {
        FinishedCheckpoint {
            trigger: CheckpointTrigger::Interval,
            began_at: Timestamp::from_nanos(1_000_000_000),
            took: Duration::from_secs(2),
            longest_pause: Duration::from_micros(820),
            outcome: Ok(SavedCheckpoint {
                location: "/data/c-1".to_owned(),
                written_bytes: 2048,
                total_bytes: 4096,
            }),
        }
    }

    fn status() -> CheckpointStatus {
        CheckpointStatus {
            at: Timestamp::from_nanos(8_000_000_000),
            enabled: true,
            last: Some(saved()),
            last_saved: Some(saved()),
            ..CheckpointStatus::default()
        }
    }

    #[test]
    fn a_server_without_checkpoints_shows_no_checkpoint_lines() {
        assert_eq!(lines(&CheckpointStatus::default()), Vec::<String>::new());
        let none = CheckpointStatus { enabled: true, ..CheckpointStatus::default() };
        assert_eq!(lines(&none), ["no checkpoint yet"]);
    }

    #[test]
    fn the_loaded_checkpoint_is_shown_until_there_is_a_newer_one() {
        let mut began =
            CheckpointStatus { loaded: Some("/data/c-0".to_owned()), ..CheckpointStatus::default() };
        assert_eq!(lines(&began), ["started from /data/c-0; writes no checkpoints"]);
        began.enabled = true;
        assert_eq!(lines(&began), ["no checkpoint yet since the server started from /data/c-0"]);
        let error = Err("disk full".to_owned());
        began = CheckpointStatus { last: Some(FinishedCheckpoint { outcome: error, ..saved() }), ..began };
        assert!(lines(&began)[0].ends_with(": disk full; /data/c-0 remains valid"), "{:?}", lines(&began));
    }

    #[test]
    fn the_last_checkpoint_is_shown_with_its_cost() {
        let next = CheckpointStatus { next_due: Some(Duration::from_secs(90)), ..status() };
        let expected = "last checkpoint 5.0 s ago: /data/c-1, 2.00 KiB of 4.00 KiB written in 2.0 s, \
                        longest pause 0.8 ms; the next in 1 min 30 s";
        assert_eq!(lines(&next), [expected]);
    }

    #[test]
    fn a_failure_is_reported_with_the_checkpoint_that_remains_valid() {
        let failed = FinishedCheckpoint { outcome: Err("disk full".to_owned()), ..saved() };
        let mut failed = CheckpointStatus { last: Some(failed), ..status() };
        assert_eq!(lines(&failed), ["last checkpoint failed 5.0 s ago: disk full; /data/c-1 remains valid"]);
        failed.last_saved = None;
        assert_eq!(lines(&failed), ["last checkpoint failed 5.0 s ago: disk full; there is no earlier one"]);
    }

    #[test]
    fn a_running_checkpoint_is_shown_with_its_progress() {
        let running = RunningCheckpoint {
            trigger: CheckpointTrigger::Request,
            phase: CheckpointPhase::Capturing,
            began_at: Timestamp::EPOCH,
            elapsed: Duration::from_secs(1),
            counts: CheckpointCounts::default(),
        };
        let mut now = CheckpointStatus { running: Some(running), queued: true, last: None, ..status() };
        assert_eq!(
            lines(&now),
            ["checkpoint (request): capturing for 1.0 s", "no checkpoint yet; another one is queued"]
        );
        let running = now.running.as_mut().expect("it was just made");
        running.phase = CheckpointPhase::Writing;
        running.counts =
            CheckpointCounts { items_total: 1000, items_done: 10, bytes_total: 2048, bytes_done: 1024 };
        let expected = "checkpoint (request): writing for 1.0 s: 10 of 1,000 items, 1.00 KiB of 2.00 KiB";
        assert_eq!(lines(&now)[0], expected);
    }
}
