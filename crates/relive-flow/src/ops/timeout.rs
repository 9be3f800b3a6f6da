//! Timeouts and retries.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::checkpoint::Checkpoint;
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::{ErrorKind, Flow, FlowError, Result};

struct Timeout<T> {
    upstream: Box<dyn Pull<T>>,
    within: Duration,
    /// The deadline of the current wait, or `None` if no wait is in progress.
    until: Option<Instant>,
    node: Arc<Node>,
}

impl<T> Pull<T> for Timeout<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        let polled = self.upstream.poll_next(turn);
        if polled.is_ready() || turn.is_stopped() {
            self.until = None;
            return polled;
        }
        let now = Instant::now();
        // A deadline beyond the range of the clock never expires.
        let Some(until) = self.until.or_else(|| now.checked_add(self.within)) else { return Poll::Pending };
        if now < until {
            self.until = Some(until);
            turn.expire_at(until);
            return Poll::Pending;
        }
        self.until = None;
        let place = self.node.place(None, self.node.items());
        let text = format!("no item arrived within {:?}", self.within);
        Poll::Ready(Some(Err(FlowError::at(ErrorKind::Late, place, text))))
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        self.upstream.checkpoint(checkpoint)
    }
}

struct Retry<T, F> {
    upstream: Box<dyn Pull<T>>,
    times: u32,
    /// Returns whether to pull again after an error.
    drops: F,
    /// The number of consecutive errors.
    failed: u32,
}

impl<T, F: FnMut(&FlowError) -> bool + Send> Pull<T> for Retry<T, F> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        loop {
            let polled = self.upstream.poll_next(turn);
            match &polled {
                Poll::Ready(Some(Err(error))) if self.failed < self.times && (self.drops)(error) => {
                    self.failed += 1;
                }
                Poll::Ready(_) => {
                    self.failed = 0;
                    return polled;
                }
                Poll::Pending => return polled,
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let mut failed = u64::from(self.failed);
        checkpoint.number(&mut failed);
        self.failed = u32::try_from(failed).unwrap_or(u32::MAX);
        self.upstream.checkpoint(checkpoint)
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Returns the same items. If no item arrives within this time after a pull, the flow yields an [`ErrorKind::Late`]
    /// error; the item may still arrive at the next pull.
    #[must_use]
    pub fn timeout(self, within: Duration) -> Flow<T> {
        let name = format!("timeout({within:?})");
        self.then(name, |upstream, node| Timeout { upstream, within, until: None, node })
    }

    /// Returns the same items, dropping up to `times` consecutive errors: after an error, the flow pulls again. A
    /// further error is passed on.
    ///
    /// ```
    /// use relive_flow::Flow;
    ///
    /// let words = Flow::from_iter("words", ["7", "x", "y", "9", "z"]);
    /// let numbers = words.try_for_each(str::parse::<u32>).retry(2);
    /// assert_eq!(numbers.into_iter().collect::<Result<Vec<_>, _>>()?, [7, 9]);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn retry(self, times: u32) -> Flow<T> {
        self.retry_if(times, |_| true)
    }

    /// Like [`retry`](Self::retry), but drops only the errors for which `drops` returns true.
    #[must_use]
    pub fn retry_if(self, times: u32, drops: impl FnMut(&FlowError) -> bool + Send + 'static) -> Flow<T> {
        self.then(format!("retry({times})"), |upstream, _| Retry { upstream, times, drops, failed: 0 })
    }
}
