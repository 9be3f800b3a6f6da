//! Several copies of one flow.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::shared_waker::SharedWaker;
use crate::sync::Mutex;
use crate::waits::{FIRST_PULL_TIMEOUT, Need, Part, Puller};
use crate::{Flow, Result};

/// How far a copy may get ahead of the other copies, and what happens then.
///
/// ```
/// use relive_flow::{Flow, Lead};
///
/// // A copy for a display: it never delays the first copy, and shows the latest items.
/// let [learner, display] = Flow::from_iter("steps", 0..9).duplicate(Lead::dropping_oldest(2));
/// assert_eq!(learner.into_iter().collect::<Result<Vec<_>, _>>()?.len(), 9);
/// let monitor = display.monitor();
/// assert_eq!(display.into_iter().collect::<Result<Vec<_>, _>>()?, [7, 8]);
/// assert_eq!(monitor.operators()[1].dropped, Some(7));
/// # Ok::<(), relive_flow::FlowError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The number of items that are kept for a copy that is behind; 0 is treated as 1.
    pub max: usize,
    /// What happens when a copy is behind by `max` items, and another copy is pulled.
    pub when_full: WhenFull,
}

/// What happens when a copy has all the items that are kept for it, and another copy is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The copy that is ahead waits until the other copies are pulled. Each copy yields all items.
    #[default]
    Wait,
    /// Each copy that is behind loses its oldest item, which
    /// [`OperatorStatus::dropped`](crate::OperatorStatus::dropped) counts. No copy waits for another one. The items that
    /// a copy that is behind still has to deliver postpone a [checkpoint](crate::Flow::checkpoint).
    DropOldest,
}

impl Lead {
    /// Returns a lead at which the copy that is ahead waits.
    #[must_use]
    pub fn waiting(max: usize) -> Self {
        Self { max, when_full: WhenFull::Wait }
    }

    /// Returns a lead at which the copies that are behind lose their oldest items.
    #[must_use]
    pub fn dropping_oldest(max: usize) -> Self {
        Self { max, when_full: WhenFull::DropOldest }
    }
}

impl From<usize> for Lead {
    fn from(max: usize) -> Self {
        Self::waiting(max)
    }
}

/// The shared state of the copies.
struct Duplicated<T> {
    upstream: Box<dyn Pull<T>>,
    /// The duplicated operator.
    input: Arc<Node>,
    copies: Vec<Copy<T>>,
    /// Wakes the copies that are waiting.
    shared_waker: Arc<SharedWaker>,
    /// Wakes the copies through `shared_waker`.
    waker: Waker,
    lead: Lead,
    is_over: bool,
    /// Items that were dropped during the current pull. Their destructors run without the lock.
    dropped: Vec<Tagged<T>>,
}

struct Copy<T> {
    node: Arc<Node>,
    /// Items that other copies have pulled, but this copy has not.
    queue: VecDeque<Tagged<T>>,
    /// The thread that last pulled this copy.
    puller: Option<Weak<Puller>>,
    /// When this copy began to wait for the other copies.
    waits_since: Option<Instant>,
    is_dropped: bool,
}

impl<T: Clone> Duplicated<T> {
    fn poll_next(&mut self, number: usize, node: &Node, turn: &mut Turn<'_>) -> Polled<T> {
        let Some(own) = self.copies.get_mut(number) else { return Poll::Ready(None) };
        Puller::note(&mut own.puller);
        if let Some(tagged) = own.queue.pop_front() {
            own.waits_since = None;
            return Poll::Ready(Some(Ok(tagged)));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.lead.when_full == WhenFull::Wait && self.ahead() >= self.lead.max {
            self.wait(number, node, turn);
            return Poll::Pending;
        }
        match self.poll_upstream(number, turn) {
            Poll::Ready(Some(Ok(tagged))) => {
                self.hand_out(number, &tagged);
                Poll::Ready(Some(Ok(tagged)))
            }
            Poll::Ready(None) => {
                self.is_over = true;
                Poll::Ready(None)
            }
            // The next copy that pulls continues after the error.
            failed @ Poll::Ready(Some(Err(_))) => failed,
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_upstream(&mut self, number: usize, turn: &mut Turn<'_>) -> Polled<T> {
        let mut part = turn.over(&self.waker);
        let mut polled = self.upstream.poll_next(&mut part);
        if polled.is_pending() && !part.is_stopped() {
            // The shared waker is not woken for items that arrived before this copy was added to it.
            self.shared_waker.add(number, turn.outer_waker());
            part = turn.over(&self.waker);
            polled = self.upstream.poll_next(&mut part);
        }
        turn.follow(part);
        polled
    }

    /// Returns how far the pulling copy, which is the furthest ahead, leads the copy that is furthest behind.
    fn ahead(&self) -> usize {
        self.copies.iter().filter(|copy| !copy.is_dropped).map(|copy| copy.queue.len()).max().unwrap_or(0)
    }

    fn hand_out(&mut self, number: usize, tagged: &Tagged<T>) {
        for (other, copy) in self.copies.iter_mut().enumerate() {
            if other == number {
                copy.waits_since = None;
            } else if !copy.is_dropped {
                copy.queue.push_back(tagged.clone());
                // This happens only with `WhenFull::DropOldest`; otherwise, the pulling copy has waited.
                if copy.queue.len() > self.lead.max {
                    self.dropped.extend(copy.queue.pop_front());
                    copy.node.add_dropped();
                }
            }
        }
    }

    /// Waits for the copies that are behind.
    fn wait(&mut self, number: usize, node: &Node, turn: &mut Turn<'_>) {
        let Some(own) = self.copies.get_mut(number) else { return };
        let until = *own.waits_since.get_or_insert_with(Instant::now) + FIRST_PULL_TIMEOUT;
        let (of, max_lead) = (self.copies.len(), self.lead.max);
        let behind = self
            .copies
            .iter()
            .enumerate()
            .filter(|(_, copy)| !copy.is_dropped && copy.queue.len() >= max_lead);
        let part = |(other, copy): (usize, &Copy<T>)| Part {
            name: format!("copy {other} of {of}"),
            puller: copy.puller.clone(),
            until,
        };
        let text = format!(
            "{}: this copy is ahead by the limit ({max_lead}), and would wait forever for the others; pull all \
             copies, allow a larger lead, or drop the oldest items",
            node.name()
        );
        let need = Need::Parts(behind.map(part).collect(), text);
        self.shared_waker.add(number, turn.waker_for(need));
    }
}

/// A copy of the flow.
struct Duplicate<T> {
    shared: Arc<Mutex<Duplicated<T>>>,
    shared_waker: Arc<SharedWaker>,
    number: usize,
    node: Arc<Node>,
}

impl<T: Clone + Send> Pull<T> for Duplicate<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        let mut shared = self.shared.lock();
        let polled = shared.poll_next(self.number, &self.node, turn);
        let dropped = std::mem::take(&mut shared.dropped);
        drop(shared);
        drop(dropped);
        if polled.is_ready() {
            self.shared_waker.wake_selected(|other| other != self.number);
        }
        polled
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        if !checkpoint.is_first_at(Arc::as_ptr(&self.shared).addr()) {
            return Ok(());
        }
        let mut shared = self.shared.lock();
        checkpoint.holds(shared.copies.iter().map(|copy| copy.queue.len()).sum());
        checkpoint.flag(&mut shared.is_over);
        shared.upstream.checkpoint(checkpoint)
    }
}

impl<T> Drop for Duplicate<T> {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        let queue = shared.copies.get_mut(self.number).map(|own| {
            own.is_dropped = true;
            std::mem::take(&mut own.queue)
        });
        drop(shared);
        self.shared_waker.wake_selected(|_| true);
        // The destructors of the user's items run without the lock.
        drop(queue);
    }
}

impl<T: Clone + Send + 'static> Flow<T> {
    /// Returns copies of the flow. `lead` is a [`Lead`], or a number: a copy may then be up to this many items ahead of
    /// the other copies, at least 1. A copy with this lead waits until the other copies are pulled, so the buffer
    /// contains at most this many items, and each copy yields all items. An error is returned only to the copy that
    /// pulls it.
    ///
    /// Waiting for copies that nothing will pull is an [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock) error. It
    /// occurs immediately if a thread of the graph pulls those copies, such as the thread of a
    /// [`prefetch`](Flow::prefetch), but nothing takes that thread's items. If no thread other than this one has pulled
    /// the copies so far, it occurs after a second, to give another thread time to begin pulling them.
    /// [`next_within`](Flow::next_within) always waits for its full timeout. Dropped copies are ignored.
    ///
    /// ```
    /// use relive_flow::{Flow, Order, Stepped};
    ///
    /// let [mut one, mut other] = Flow::from_iter("numbers", 0..2).duplicate(1);
    /// assert_eq!(one.step()?, Stepped::Item(0));
    /// assert_eq!(one.step()?, Stepped::Waiting);
    /// assert_eq!(other.step()?, Stepped::Item(0));
    /// assert_eq!(one.step()?, Stepped::Item(1));
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn duplicate<const N: usize>(self, lead: impl Into<Lead>) -> [Flow<T>; N] {
        let (sources, (shared, metrics)) = (self.sources, Duplicated::of(self, lead.into()));
        std::array::from_fn(|_| Duplicated::add_copy(&shared, N, metrics.clone()).with_sources(sources))
    }

    /// Like [`duplicate`](Self::duplicate), but for a number of copies that is known only at run time.
    #[must_use]
    pub fn copies(self, count: usize, lead: impl Into<Lead>) -> Vec<Flow<T>> {
        let (sources, (shared, metrics)) = (self.sources, Duplicated::of(self, lead.into()));
        let copy = |_| Duplicated::add_copy(&shared, count, metrics.clone()).with_sources(sources);
        (0..count).map(copy).collect()
    }
}

impl<T: Clone + Send + 'static> Duplicated<T> {
    fn of(flow: Flow<T>, lead: Lead) -> (Arc<Mutex<Duplicated<T>>>, Metrics) {
        let Flow { pull: upstream, node: input, metrics, .. } = flow;
        let shared_waker = Arc::<SharedWaker>::default();
        let waker = Waker::from(Arc::clone(&shared_waker));
        let lead = Lead { max: lead.max.max(1), ..lead };
        let (copies, dropped) = (Vec::new(), Vec::new());
        let shared =
            Duplicated { upstream, input, copies, shared_waker, waker, lead, is_over: false, dropped };
        (Arc::new(Mutex::new(shared)), metrics)
    }

    /// Adds a copy with the next number.
    fn add_copy(shared: &Arc<Mutex<Duplicated<T>>>, of: usize, metrics: Metrics) -> Flow<T> {
        let mut locked = shared.lock();
        let number = locked.copies.len();
        let (name, inputs) = (format!("copy {number} of {of}"), vec![Arc::clone(&locked.input)]);
        let node = match locked.lead.when_full {
            WhenFull::Wait => Node::queue(name, inputs),
            WhenFull::DropOldest => Node::dropping_queue(name, inputs),
        };
        let (queue, own) = (VecDeque::new(), Arc::clone(&node));
        locked.copies.push(Copy { node: own, queue, puller: None, waits_since: None, is_dropped: false });
        let shared_waker = Arc::clone(&locked.shared_waker);
        drop(locked);
        let copy = Duplicate { shared: Arc::clone(shared), shared_waker, number, node: Arc::clone(&node) };
        Flow::new(copy, node, metrics)
    }
}
