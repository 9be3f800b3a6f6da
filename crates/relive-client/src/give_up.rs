//! The moment at which somebody who waits for a server gives up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is made when there is something to give up on, and set anew when its moment moves.
#[derive(Default)]
pub(crate) struct GiveUp(Option<Pin<Box<Sleep>>>);

impl GiveUp {
    /// There is nothing to give up on: what was waited for has come.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Ready at `at`; never while there is no such moment.
    pub(crate) fn poll(&mut self, at: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else {
            self.forget();
            return Poll::Pending;
        };
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        std::task::ready!(timer.as_mut().poll(cx));
        self.forget();
        Poll::Ready(())
    }
}
