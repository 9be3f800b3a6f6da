//! Limits the rate of log messages about frequent events.

use tokio::time::Instant;

use crate::limits::REFUSAL_LOG_INTERVAL;

/// Decides when to log: at most once every [`REFUSAL_LOG_INTERVAL`].
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    logged_at: Option<Instant>,
}

impl LogThrottle {
    /// Returns whether to log at `now`. The caller then logs without holding a lock.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due =
            self.logged_at.is_none_or(|at| now.saturating_duration_since(at) >= REFUSAL_LOG_INTERVAL);
        if is_due {
            self.logged_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_is_logged_and_then_one_per_interval() {
        let (mut throttle, began) = (LogThrottle::default(), Instant::now());
        let due = [0.0, 0.5, 0.9, 1.0, 1.9, 2.5].map(|part| {
            let later = REFUSAL_LOG_INTERVAL.mul_f64(part);
            throttle.is_due(began + later)
        });
        assert_eq!(due, [true, false, false, true, false, true]);
        assert!(!throttle.is_due(began), "a clock that goes backwards does not trigger a log entry");
    }
}
