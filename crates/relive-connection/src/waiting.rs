//! Deadlines, backoff between attempts, and a timer with a movable deadline.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The shortest life of a healthy stream, on an established connection. Its server was reachable, even if it was quiet
/// because a rate limiter blocked samples. After such a stream, an outage is a new one, and waits start again at their
/// minimum. A stream that breaks earlier may come from a server that accepts connections but does not serve them.
pub const HEALTHY_LIFE: Duration = Duration::from_secs(2);

/// Exponential backoff: waits of 1 ms, 2 ms, 4 ms and so on, up to 1 s.
#[derive(Debug)]
pub struct Backoff {
    next_wait: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next_wait: FIRST_WAIT }
    }
}

impl Backoff {
    /// Returns the wait before the next attempt, after a stream that lasted for `life`.
    pub fn wait_after(&mut self, life: Duration) -> Duration {
        if life >= HEALTHY_LIFE {
            self.next_wait = FIRST_WAIT;
        }
        let wait = self.next_wait;
        self.next_wait = (wait * 2).min(LONGEST_WAIT);
        wait
    }
}

/// A deadline, or `None` if it is too far away to be represented.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline that is `timeout` from now.
    pub fn after(timeout: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(timeout))
    }

    /// Returns the remaining time, or `None` if the deadline is too far away to be represented.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Waits for `event`. Returns false if the deadline passes first.
    pub async fn wait_for(self, event: impl Future<Output = ()>) -> bool {
        self.run(event).await.is_some()
    }

    /// Returns the output of `future`, or `None` if the deadline passes first.
    pub async fn run<T>(self, future: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            Some(at) => timeout_at(at, future).await.ok(),
            None => Some(future.await),
        }
    }
}

/// A timer for a caller's deadline. It is created once there is a deadline, and reset when the deadline moves.
#[derive(Default)]
pub struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Ends the wait because the awaited event occurred.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Completes at `at`; never completes while `at` is `None`.
    pub fn poll(&mut self, at: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else {
            self.clear();
            return Poll::Pending;
        };
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        std::task::ready!(timer.as_mut().poll(cx));
        self.clear();
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_a_second_and_resets_after_a_healthy_stream() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..12).map(|_| backoff.wait_after(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
        assert_eq!(backoff.wait_after(HEALTHY_LIFE), FIRST_WAIT);
        assert_eq!(backoff.wait_after(Duration::ZERO), FIRST_WAIT * 2);
    }
}
