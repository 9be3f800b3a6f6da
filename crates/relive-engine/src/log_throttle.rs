//! Limits the rate of log messages about frequent events.

use std::time::Instant;

use crate::limits::LOG_INTERVAL;

/// Counts events that are logged together, at most once every [`LOG_INTERVAL`].
#[derive(Debug, Default)]
pub struct LogThrottle {
    unlogged: u64,
    logged_at: Option<Instant>,
}

impl LogThrottle {
    /// Counts an event at `now`. Returns the number of events since the last entry if an entry is due; the caller then
    /// logs it without holding a lock.
    pub fn note(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        let is_recent = |at: Instant| now.saturating_duration_since(at) < LOG_INTERVAL;
        if self.logged_at.is_some_and(is_recent) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_is_logged_and_later_ones_together() {
        let (mut throttle, began) = (LogThrottle::default(), Instant::now());
        let logged = [0.0, 0.1, 0.9, 1.0, 1.1].map(|part| throttle.note(began + LOG_INTERVAL.mul_f64(part)));
        assert_eq!(logged, [Some(1), None, None, Some(3), None]);
        assert_eq!(throttle.note(began), None, "a clock that goes backwards does not trigger an entry");
    }
}
