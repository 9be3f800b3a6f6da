//! Sliding windows.

use std::collections::VecDeque;
use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

struct Window<T> {
    upstream: Box<dyn Pull<T>>,
    size: usize,
    step: usize,
    open: VecDeque<Tagged<T>>,
    /// The number of items to skip before the next window.
    left_out: usize,
}

impl<T: Clone> Window<T> {
    fn emit(&mut self) -> Tagged<Vec<T>> {
        let first = self.open.front().and_then(|tagged| tagged.source);
        let source = first.filter(|_| self.open.iter().all(|tagged| tagged.source == first));
        let item = self.open.iter().map(|tagged| tagged.item.clone()).collect();
        let gone = self.step.min(self.size);
        self.open.drain(..gone);
        self.left_out = self.step - gone;
        Tagged { item, source }
    }
}

impl<T: Clone + Send> Pull<Vec<T>> for Window<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Vec<T>> {
        while self.open.len() < self.size {
            match self.upstream.poll_next(turn) {
                Poll::Ready(Some(Ok(_))) if self.left_out > 0 => self.left_out -= 1,
                Poll::Ready(Some(Ok(tagged))) => self.open.push_back(tagged),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Some(Ok(self.emit())))
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.holds(self.open.len());
        checkpoint.count(&mut self.left_out);
        self.upstream.checkpoint(checkpoint)
    }
}

impl<T: Clone + Send + 'static> Flow<T> {
    /// Returns lists of `size` consecutive items; each list begins `step` items after the previous list. If all items
    /// have the same source, the list also has this source. Items at the end that do not fill a list are dropped. A
    /// `size` or a `step` of 0 is an [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) error at the first pull.
    ///
    /// ```
    /// use relive_flow::Flow;
    ///
    /// let windows = Flow::from_iter("steps", 0..6).window(3, 2);
    /// assert_eq!(windows.into_iter().collect::<Result<Vec<_>, _>>()?, [[0, 1, 2], [2, 3, 4]]);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn window(self, size: usize, step: usize) -> Flow<Vec<T>> {
        let fault =
            (size == 0 || step == 0).then_some("the size and the step of a window must be at least 1");
        self.then_unless(fault, format!("window({size}, {step})"), |upstream| Window {
            upstream,
            size,
            step,
            open: VecDeque::new(),
            left_out: 0,
        })
    }
}
