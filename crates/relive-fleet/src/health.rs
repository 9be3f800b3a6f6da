//! Whether a server participates: a state machine without a clock or a network.

use std::time::Duration;

use tokio::time::Instant;

use crate::changes::ServerStanding;

/// How often a participating server's tables are requested. Their sizes are the weights of samples, and a silent server
/// is detected within this interval plus its time limit for an answer.
const REFRESH_INTERVAL: Duration = Duration::from_millis(700);

/// The first and the longest wait before another request to an unreachable server.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// The health of a server.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) standing: ServerStanding,
    /// The time at which the server's current standing began.
    pub(crate) since: Instant,
    /// The reason why the server is left out.
    pub(crate) reason: String,
    pub(crate) times_left: u64,
    /// The number of failures since the server last answered.
    failures: u32,
}

impl Health {
    pub(crate) fn new(now: Instant) -> Health {
        Health {
            standing: ServerStanding::Unknown,
            since: now,
            reason: String::new(),
            times_left: 0,
            failures: 0,
        }
    }

    /// Records a response to a request made at `requested_at`. Returns whether the server joins. A response that was in
    /// transit when the server was found to be unreachable does not count.
    pub(crate) fn answered(&mut self, requested_at: Instant, now: Instant) -> bool {
        if self.standing == ServerStanding::Away && requested_at < self.since {
            return false;
        }
        self.failures = 0;
        if self.standing == ServerStanding::Up {
            return false;
        }
        (self.standing, self.since) = (ServerStanding::Up, now);
        self.reason.clear();
        true
    }

    /// Records a failure. Returns whether the server leaves.
    pub(crate) fn failed(&mut self, reason: &str, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        reason.clone_into(&mut self.reason);
        if self.standing == ServerStanding::Away {
            return false;
        }
        (self.standing, self.since) = (ServerStanding::Away, now);
        self.times_left += 1;
        true
    }

    /// Returns how long to wait before the next request to the server.
    pub(crate) fn next_refresh(&self) -> Duration {
        match self.standing {
            ServerStanding::Up => REFRESH_INTERVAL,
            ServerStanding::Unknown => Duration::ZERO,
            ServerStanding::Away => {
                let doublings = self.failures.saturating_sub(1).min(16);
                FIRST_RETRY.saturating_mul(1 << doublings).min(LONGEST_RETRY)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_server_leaves_once_and_is_probed_less_and_less_often() {
        let start = Instant::now();
        let mut health = Health::new(start);
        assert_eq!(health.next_refresh(), Duration::ZERO);
        assert!(health.answered(start, start) && !health.answered(start, start));
        assert_eq!(health.next_refresh(), REFRESH_INTERVAL);
        assert!(health.failed("refused", start) && !health.failed("refused again", start));
        assert_eq!((&*health.reason, health.times_left), ("refused again", 1));
        let waits: Vec<u128> = (0..10)
            .map(|_| {
                health.failed("refused", start);
                health.next_refresh().as_millis()
            })
            .collect();
        assert_eq!(waits, [80, 160, 320, 640, 1280, 2000, 2000, 2000, 2000, 2000]);
    }

    #[test]
    fn an_answer_sent_before_the_failure_is_ignored() {
        let start = Instant::now();
        let (requested_at, failed, later) =
            (start, start + Duration::from_millis(1), start + Duration::from_millis(2));
        let mut health = Health::new(start);
        assert!(health.answered(start, start));
        assert!(health.failed("reset", failed));
        assert!(!health.answered(requested_at, later));
        assert_eq!(health.standing, ServerStanding::Away);
        assert!(health.answered(later, later));
        assert_eq!((health.standing, &*health.reason), (ServerStanding::Up, ""));
    }
}
