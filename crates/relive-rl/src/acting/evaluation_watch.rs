//! Reports evaluations whose episodes do not end.

use std::time::{Duration, Instant};

/// The time without the end of an episode after which this is reported. The intervals between further reports double.
const PATIENCE: Duration = Duration::from_secs(20);

/// The progress of an evaluation.
pub(super) struct EvaluationWatch {
    /// The number of episodes that have not ended.
    left: usize,
    since: Instant,
    patience: Duration,
    steps: u64,
}

impl EvaluationWatch {
    /// Starts an evaluation of `episodes` episodes.
    pub(super) fn begin(episodes: usize) -> EvaluationWatch {
        EvaluationWatch { left: episodes, since: Instant::now(), patience: PATIENCE, steps: 0 }
    }

    /// Notes a step in each environment, after which the given number of episodes have not ended. Logs a warning if no
    /// episode has ended for a long time.
    pub(super) fn note(&mut self, left: usize) {
        if let Some(text) = self.note_at(left, Instant::now()) {
            tracing::warn!("{text}");
        }
    }

    fn note_at(&mut self, left: usize, now: Instant) -> Option<String> {
        self.steps += 1;
        if left < self.left {
            *self = EvaluationWatch { left, since: now, patience: PATIENCE, steps: 0 };
            return None;
        }
        if now.duration_since(self.since) < self.patience {
            return None;
        }
        self.patience *= 2;
        let Self { steps, .. } = self;
        Some(format!(
            "an evaluation has taken {steps} steps since it began or its last episode ended, and waits for {left} more \
             episodes: if episodes may never end, limit their length, for example with Gymnasium's TimeLimit, or \
             give the run a timeout"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_episodes_are_reported() {
        let mut watch = EvaluationWatch::begin(2);
        let mut now = watch.since;
        let mut after = |watch: &mut EvaluationWatch, time, left| {
            now += time;
            watch.note_at(left, now)
        };
        assert_eq!(after(&mut watch, PATIENCE / 2, 2), None);
        assert_eq!(after(&mut watch, PATIENCE, 1), None, "an episode has ended");
        assert_eq!(after(&mut watch, PATIENCE / 2, 1), None);
        let text = after(&mut watch, PATIENCE / 2, 1).unwrap();
        assert!(text.starts_with("an evaluation has taken 2 steps") && text.contains("for 1 more"), "{text}");
        assert_eq!(after(&mut watch, PATIENCE / 2, 1), None);
        assert!(after(&mut watch, PATIENCE / 2, 1).is_some(), "it is reported again, after twice the time");
    }
}
