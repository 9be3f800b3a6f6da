//! A single stream, and pulling from it.

use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::metrics::Metrics;
use crate::node::{Counted, Measured, Node};
use crate::pull::{Pending, Polled, Pull, Stop, TakeOrder, Turn};
use crate::sync::{AtomicBool, Ordering};
use crate::waits::{self, Signal, WaitOutcome};
use crate::{ErrorKind, FlowError, Result};

/// A stream of items, and the graph of operators that produces them.
///
/// Flows are lazy: they do nothing until an item is pulled, and then do only the work for that item.
pub struct Flow<T> {
    pub(crate) pull: Box<dyn Pull<T>>,
    pub(crate) node: Arc<Node>,
    pub(crate) metrics: Metrics,
    /// How the flow is pulled, if it is the stream of a shard.
    pub(crate) take_order: TakeOrder,
    /// The number of shards from which the items come; 0 if they come from no shard.
    pub(crate) sources: u32,
    signal: Arc<Signal>,
    waker: Waker,
}

impl<T: Send + 'static> Flow<T> {
    /// Returns the items of an iterator.
    pub fn from_iter<I>(name: &str, items: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
    {
        struct Items<I> {
            items: I,
            taken: u64,
        }
        impl<I: Iterator + Send> Pull<I::Item> for Items<I> {
            fn poll_next(&mut self, _: &mut Turn<'_>) -> Polled<I::Item> {
                self.taken += 1;
                Poll::Ready(self.items.next().map(|item| Ok(Tagged { item, source: None })))
            }

            fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
                let before = self.taken;
                checkpoint.number(&mut self.taken);
                let mut left = before..self.taken;
                while left.next().is_some() && self.items.next().is_some() {}
                Ok(())
            }
        }
        Self::from_pull(name, Items { items: items.into_iter(), taken: 0 })
    }

    /// Returns the items of a custom source.
    pub fn from_pull(name: &str, pull: impl Pull<T> + 'static) -> Self {
        Self::new(pull, Node::new(name, Vec::new()), Metrics::default())
    }

    pub(crate) fn new(pull: impl Pull<T> + 'static, node: Arc<Node>, metrics: Metrics) -> Self {
        let signal = Arc::<Signal>::default();
        let waker = Waker::from(Arc::clone(&signal));
        let pull = Box::new(Counted::new(pull, Arc::clone(&node)));
        Self { pull, node, metrics, take_order: TakeOrder::Arrival, sources: 0, signal, waker }
    }

    /// Returns a flow that only yields an error about its invalid arguments.
    pub(crate) fn refused(node: Arc<Node>, metrics: Metrics, fault: &str) -> Self {
        struct Refused(Arc<Node>, Option<String>);
        impl<T> Pull<T> for Refused {
            fn poll_next(&mut self, _: &mut Turn<'_>) -> Polled<T> {
                let fault = self.1.take().map(|fault| format!("{}: {fault}", self.0.name()));
                Poll::Ready(fault.map(|text| Err(FlowError::new(ErrorKind::Invalid, text))))
            }

            fn checkpoint(&mut self, _: &mut Checkpoint) -> Result<()> {
                Ok(())
            }
        }
        Self::new(Refused(Arc::clone(&node), Some(fault.to_owned())), node, metrics)
    }
}

impl<T: 'static> Flow<T> {
    /// Adds an operator to this flow.
    pub(crate) fn then<U: Send + 'static, P: Pull<U> + 'static>(
        self,
        name: impl Into<String>,
        operator: impl FnOnce(Box<dyn Pull<T>>, Arc<Node>) -> P,
    ) -> Flow<U> {
        let node = Node::new(name, vec![self.node]);
        let pull = operator(self.pull, Arc::clone(&node));
        Flow::new(pull, node, self.metrics).with_sources(self.sources)
    }

    /// Adds an operator to this flow, unless there is a `fault` in its arguments.
    pub(crate) fn then_unless<U: Send + 'static, P: Pull<U> + 'static>(
        self,
        fault: Option<&str>,
        name: impl Into<String>,
        operator: impl FnOnce(Box<dyn Pull<T>>) -> P,
    ) -> Flow<U> {
        match fault {
            Some(fault) => Flow::refused(Node::new(name, vec![self.node]), self.metrics, fault),
            None => self.then(name, |upstream, _| operator(upstream)),
        }
    }

    pub(crate) fn with_sources(self, sources: u32) -> Flow<T> {
        Flow { sources, ..self }
    }

    /// Wraps the pull without adding an operator.
    pub(crate) fn within<P: Pull<T> + 'static>(self, pull: impl FnOnce(Box<dyn Pull<T>>) -> P) -> Flow<T> {
        Flow { pull: Box::new(pull(self.pull)), ..self }
    }

    /// Names the last operator. [`show`](Self::show), [`mermaid`](Self::mermaid), [`monitor`](Self::monitor)
    /// and errors use this name.
    ///
    /// ```
    /// use relive_flow::Flow;
    ///
    /// let words = Flow::from_iter("words", ["7", "x"]);
    /// let mut numbers = words.try_for_each(str::parse::<u32>).named("parse");
    /// assert_eq!(numbers.next().transpose()?, Some(7));
    /// let error = numbers.next().unwrap().unwrap_err();
    /// assert_eq!(error.to_string(), "parse failed at item 1: invalid digit found in string");
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> Flow<T> {
        self.node.rename(name);
        self
    }

    /// Counts the bytes of the last operator's items with this function; [`monitor`](Self::monitor) shows the sum. When
    /// a graph resumes from a checkpoint, the count starts again from 0.
    ///
    /// ```
    /// use relive_flow::Flow;
    ///
    /// let mut lines = Flow::from_iter("lines", ["one", "three"]).measured(|line| line.len());
    /// lines.next().transpose()?;
    /// assert_eq!(lines.monitor().operators()[0].bytes, Some(3));
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn measured(self, bytes: impl FnMut(&T) -> usize + Send + 'static) -> Flow<T> {
        let node = Arc::clone(&self.node);
        self.within(|pull| Measured::new(pull, node, bytes))
    }

    /// Waits for the next item. Returns `None` at the end, after which this method must not be called again.
    ///
    /// # Errors
    /// Errors of the operators; [`ErrorKind::Deadlock`] if the graph waits for itself. The next call
    /// continues with the next item.
    #[expect(
        clippy::should_implement_trait,
        reason = "a flow is not an iterator; `into_iter` converts it to one"
    )]
    pub fn next(&mut self) -> Option<Result<T>> {
        self.next_until(None, false)
    }

    /// Like [`next`](Self::next), but with a timeout.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next), and [`ErrorKind::Timeout`]. A timeout loses no items.
    pub fn next_within(&mut self, timeout: Duration) -> Option<Result<T>> {
        self.next_until(Instant::now().checked_add(timeout), true)
    }

    /// Like [`next`](Self::next), but in short slices, for callers that do other work between two slices.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next), including [`ErrorKind::Deadlock`], and [`ErrorKind::Timeout`] at the end of
    /// the slice. A timeout loses no items.
    pub fn next_for(&mut self, slice: Duration) -> Option<Result<T>> {
        self.next_until(Instant::now().checked_add(slice), false)
    }

    /// Returns the next item. If `shares` is true, other threads also use the graph, and this thread waits for their
    /// progress.
    fn next_until(&mut self, until: Option<Instant>, shares: bool) -> Option<Result<T>> {
        loop {
            let (polled, pending) = self.poll();
            if let Poll::Ready(item) = polled {
                return item.map(|item| item.map(|tagged| tagged.item));
            }
            // A part of the graph had no items, but has since been woken by another part that was pulled later.
            if self.signal.take() {
                continue;
            }
            if pending.is_for_nothing() {
                return Some(Err(self.asleep()));
            }
            let moment = until.into_iter().chain(pending.again).min();
            // A wait with a deadline does not end early because of a deadlock.
            let needs = pending.needs.filter(|_| !shares);
            match waits::wait(&self.signal, needs, moment) {
                WaitOutcome::Late if moment == until => {
                    let text = format!("{}: no item arrived in time", self.node.name());
                    return Some(Err(FlowError::new(ErrorKind::Timeout, text)));
                }
                WaitOutcome::Late | WaitOutcome::Woken => {}
                WaitOutcome::Stuck(text) => return Some(Err(FlowError::new(ErrorKind::Deadlock, text))),
            }
        }
    }

    /// Pulls once. Returns the result, and whether the pull stopped at `stop`.
    pub(crate) fn poll_to(&mut self, stop: Stop<'_>) -> (Polled<T>, bool) {
        let turn = Turn::new(&self.waker, self.take_order);
        let mut turn = turn.stopping(stop);
        let polled = self.pull.poll_next(&mut turn);
        (polled, turn.is_stopped())
    }

    fn poll(&mut self) -> (Polled<T>, Pending) {
        let mut turn = Turn::new(&self.waker, self.take_order);
        let polled = self.pull.poll_next(&mut turn);
        (polled, turn.into_pending())
    }

    /// Returns a pull that is nested in another pull.
    pub(crate) fn poll_in(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        let outer = turn.set_take_order(self.take_order);
        let polled = self.pull.poll_next(turn);
        turn.set_take_order(outer);
        polled
    }

    /// Waits for the next item and returns it with its source, or returns `None` once `stops` returns true. A change of
    /// `stops` takes effect when the waker is called; `register` receives this waker before the first wait. `around` calls
    /// its argument, which pulls once.
    pub(crate) fn next_unless(
        &mut self,
        stops: &AtomicBool,
        register: impl FnOnce(&Waker),
        around: &dyn Fn(&mut dyn FnMut() -> bool),
    ) -> Option<Option<Result<Tagged<T>>>> {
        let mut register = Some(register);
        while !stops.load(Ordering::Relaxed) {
            let (mut polled, mut pending) = (Poll::Pending, Pending::default());
            around(&mut || {
                (polled, pending) = self.poll();
                false
            });
            if let Poll::Ready(item) = polled {
                return Some(item);
            }
            if self.signal.take() {
                continue;
            }
            if pending.is_for_nothing() {
                return Some(Some(Err(self.asleep())));
            }
            register.take().into_iter().for_each(|register| register(&self.waker));
            if !stops.load(Ordering::Relaxed)
                && let WaitOutcome::Stuck(text) = waits::wait(&self.signal, pending.needs, pending.again)
            {
                return Some(Some(Err(FlowError::new(ErrorKind::Deadlock, text))));
            }
        }
        None
    }

    fn asleep(&self) -> FlowError {
        let text = format!(
            "{}: a source of this graph is waiting but did not register a waker, so nothing would ever wake it",
            self.node.name()
        );
        FlowError::new(ErrorKind::Deadlock, text)
    }

    /// Returns the metrics that the operators of the graph share.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl<T> fmt::Debug for Flow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("operator", &&*self.node.name())
            .field("items", &self.node.items())
            .finish_non_exhaustive()
    }
}

/// An iterator over the items of a flow, each pulled on demand.
#[derive(Debug)]
pub struct IntoIter<T>(Option<Flow<T>>);

impl<T: 'static> Iterator for IntoIter<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let item = self.0.as_mut()?.next();
        if item.is_none() {
            self.0 = None;
        }
        item
    }
}

impl<T: 'static> IntoIterator for Flow<T> {
    type Item = Result<T>;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(Some(self))
    }
}
