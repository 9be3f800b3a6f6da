//! Windows: lists of items that are adjacent, or that arrive within a time.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::checkpoint::Checkpoint;
use crate::item::{Source, Tagged};
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
        let source = common_source(self.open.iter());
        let item = self.open.iter().map(|tagged| tagged.item.clone()).collect();
        let gone = self.step.min(self.size);
        self.open.drain(..gone);
        self.left_out = self.step - gone;
        Tagged { item, source }
    }
}

/// Returns the source of all items, if they have the same one.
fn common_source<'a, T: 'a>(mut items: impl Iterator<Item = &'a Tagged<T>>) -> Option<Source> {
    let first = items.next()?.source;
    first.filter(|_| items.all(|tagged| tagged.source == first))
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

struct WindowByTime<T> {
    upstream: Box<dyn Pull<T>>,
    within: Duration,
    open: Vec<Tagged<T>>,
    /// When the open list is complete. `None` if the list is empty, or the time is beyond the range of the clock.
    until: Option<Instant>,
    is_over: bool,
}

impl<T: Send> WindowByTime<T> {
    fn emit(&mut self) -> Polled<Vec<T>> {
        self.until = None;
        let items = std::mem::take(&mut self.open);
        let source = common_source(items.iter());
        Poll::Ready(Some(Ok(Tagged { item: items.into_iter().map(|tagged| tagged.item).collect(), source })))
    }
}

impl<T: Send> Pull<Vec<T>> for WindowByTime<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Vec<T>> {
        while !self.is_over {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return self.emit();
            }
            match self.upstream.poll_next(turn) {
                Poll::Ready(Some(Ok(tagged))) => {
                    // The source may have waited in this thread until after the end of the list.
                    let is_late = self.until.is_some_and(|until| Instant::now() >= until);
                    let list = is_late.then(|| self.emit());
                    if self.open.is_empty() {
                        self.until = Instant::now().checked_add(self.within);
                    }
                    self.open.push(tagged);
                    if let Some(list) = list {
                        return list;
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => self.is_over = true,
                Poll::Pending => {
                    if let Some(until) = self.until
                        && !turn.is_stopped()
                    {
                        turn.expire_at(until);
                    }
                    return Poll::Pending;
                }
            }
        }
        if self.open.is_empty() { Poll::Ready(None) } else { self.emit() }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.holds(self.open.len());
        checkpoint.flag(&mut self.is_over);
        self.upstream.checkpoint(checkpoint)
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Returns lists of the items that arrive within a time: each list begins with an item, and contains the items that
    /// the flow yields during the following `within`. The list is returned when this time is over, or at the end. A
    /// pull that finds the time already over returns the list without pulling further items. If the source waits in the
    /// thread that pulls, as iterators do, the list is returned only with the next item, which begins the next list; a
    /// [`prefetch`](Flow::prefetch) before the window prevents this. If all items have the same source, the list also has
    /// this source.
    ///
    /// A list has no maximum length: a flow that never waits fills it for the whole time. A time of 0 is an
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) error at the first pull.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use relive_flow::Flow;
    ///
    /// // All items arrive, and the flow ends, before the time is over.
    /// let windows = Flow::from_iter("requests", 0..3).window_by_time(Duration::from_secs(60));
    /// assert_eq!(windows.into_iter().collect::<Result<Vec<_>, _>>()?, [[0, 1, 2]]);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn window_by_time(self, within: Duration) -> Flow<Vec<T>> {
        let fault = within.is_zero().then_some("the time of a window must be above 0");
        self.then_unless(fault, format!("window_by_time({within:?})"), |upstream| WindowByTime {
            upstream,
            within,
            open: Vec::new(),
            until: None,
            is_over: false,
        })
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
