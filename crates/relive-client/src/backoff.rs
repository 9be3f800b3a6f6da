//! How long to wait before a broken stream is opened again.

use std::time::Duration;

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A stream that lived this long was healthy: the next failure starts from [`FIRST_WAIT`] again.
const HEALTHY_LIFE: Duration = Duration::from_secs(2);

/// Waits of 1 ms, 2 ms, 4 ms and so on up to 1 s.
#[derive(Debug)]
pub(crate) struct Backoff {
    next_wait: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { next_wait: FIRST_WAIT }
    }

    /// The wait before the next attempt, after a stream that lived for `life`.
    pub(crate) fn wait_after(&mut self, life: Duration) -> Duration {
        if life >= HEALTHY_LIFE {
            self.next_wait = FIRST_WAIT;
        }
        let wait = self.next_wait;
        self.next_wait = (wait * 2).min(LONGEST_WAIT);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_a_second_and_starts_over_after_a_healthy_stream() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..12).map(|_| backoff.wait_after(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
        assert_eq!(backoff.wait_after(HEALTHY_LIFE), FIRST_WAIT);
        assert_eq!(backoff.wait_after(Duration::ZERO), FIRST_WAIT * 2);
    }
}
