//! Schedules for periodic work.

use std::time::{Duration, Instant};

/// The number of learner steps between two reports from a fast learner.
const REPORT_EVERY: u64 = 100;

/// The time after which a learner step is reported, regardless of the number of steps since the last report.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// Returns whether work that is scheduled every `every` steps is due, after the number of steps has advanced from
/// `before` to `now`.
pub(crate) fn is_due(every: u64, before: u64, now: u64) -> bool {
    every > 0 && before / every != now / every
}

/// The schedule of the learner's reports.
#[derive(Debug)]
pub(super) struct ReportPace(Instant);

impl ReportPace {
    pub(super) fn begin(now: Instant) -> ReportPace {
        ReportPace(now)
    }

    /// Returns whether a report is due after the learner advanced from `before` to `steps`. If so, the next interval
    /// begins.
    pub(super) fn is_due(&mut self, before: u64, steps: u64, now: Instant) -> bool {
        let is_due = is_due(REPORT_EVERY, before, steps) || now.duration_since(self.0) >= REPORT_AFTER;
        if is_due {
            self.0 = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_learners_report_by_steps_and_slow_ones_by_time() {
        let begun = Instant::now();
        let reported = |step: Duration, steps: u32| {
            let mut pace = ReportPace::begin(begun);
            let due = |at: &u32| pace.is_due(u64::from(*at) - 1, u64::from(*at), begun + step * *at);
            (1..=steps).filter(due).collect::<Vec<_>>()
        };
        assert_eq!(reported(Duration::from_millis(1), 301), [100, 200, 300]);
        assert_eq!(reported(Duration::from_millis(400), 9), [3, 6, 9]);
        assert_eq!(reported(Duration::from_millis(15), 150), [67, 100], "by whichever comes first");
    }
}
