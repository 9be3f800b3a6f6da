//! The first items.

use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

struct Take<T> {
    upstream: Box<dyn Pull<T>>,
    left: usize,
}

impl<T> Pull<T> for Take<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let polled = self.upstream.poll_next(turn);
        if let Poll::Ready(Some(Ok(_))) = &polled {
            self.left -= 1;
        }
        polled
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.count(&mut self.left);
        self.upstream.checkpoint(checkpoint)
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Returns the first `count` items. Later items are not pulled.
    #[must_use]
    pub fn take(self, count: usize) -> Flow<T> {
        self.then(format!("take({count})"), |upstream, _| Take { upstream, left: count })
    }
}
