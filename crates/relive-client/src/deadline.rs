//! Deadlines that may be as far away as the caller likes.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// A moment to give up at; never, if it is too far away to be named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(timeout))
    }

    /// How long it is until then; none if it is too far away to be named.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Waits for `event`; false when the deadline came first.
    pub(crate) async fn wait_for(self, event: impl Future<Output = ()>) -> bool {
        self.run(event).await.is_some()
    }

    /// The output of `future`, or none when the deadline came first.
    pub(crate) async fn run<T>(self, future: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            Some(at) => timeout_at(at, future).await.ok(),
            None => Some(future.await),
        }
    }
}
