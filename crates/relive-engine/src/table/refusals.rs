//! Counts refused inserts of extensions, which are logged at intervals rather than individually.

use std::time::Instant;

use crate::limits::REFUSAL_LOG_INTERVAL;
use crate::sync::Mutex;

/// The refusals that have not been logged yet.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Unlogged>);

#[derive(Default)]
struct Unlogged {
    count: u64,
    logged_at: Option<Instant>,
}

impl Refusals {
    /// Counts a refusal at `now`. Returns the number of refusals to log, if an entry is due.
    pub(super) fn note(&self, now: Instant) -> Option<u64> {
        let mut unlogged = self.0.lock();
        unlogged.count += 1;
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REFUSAL_LOG_INTERVAL;
        if unlogged.logged_at.is_some_and(is_recent) {
            return None;
        }
        unlogged.logged_at = Some(now);
        Some(std::mem::take(&mut unlogged.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_is_logged_and_later_ones_together() {
        let (refusals, began) = (Refusals::default(), Instant::now());
        let logged =
            [0.0, 0.1, 0.9, 1.0, 1.1].map(|part| refusals.note(began + REFUSAL_LOG_INTERVAL.mul_f64(part)));
        assert_eq!(logged, [Some(1), None, None, Some(3), None]);
    }
}
