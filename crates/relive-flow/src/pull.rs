//! The pull interface of streams.

use std::task::{Poll, Waker};
use std::time::Instant;

use crate::Result;
use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::waits::Need;

/// The result of a pull: an item, an error, the end, or pending.
pub type Polled<T> = Poll<Option<Result<Tagged<T>>>>;

/// A stream of items that are produced on demand.
///
/// A stream is not polled after its end. After an error it may be polled again, and continues with the next item.
pub trait Pull<T>: Send {
    /// Polls for the next item. If no item is available yet, the method must arrange for the [`waker`](Turn::waker) to
    /// be called, and return [`Poll::Pending`].
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T>;

    /// Writes the position of the stream to a checkpoint, or reads it from one before the first pull; see
    /// [`Flow::checkpoint`](crate::Flow::checkpoint).
    ///
    /// # Errors
    /// The stream cannot be saved, which is the default.
    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        Err(checkpoint.refusal("it does not implement Pull::checkpoint, so it cannot be saved"))
    }
}

impl<T> Pull<T> for Box<dyn Pull<T>> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        (**self).poll_next(turn)
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        (**self).checkpoint(checkpoint)
    }
}

/// The order in which the items of shards are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOrder {
    /// In order of arrival: every shard with an item is served.
    Arrival,
    /// In turn: while the puller is waiting for one shard, it does not pull the other shards.
    InTurn,
}

/// One pull at the end of a graph, as it passes through the operators.
#[derive(Debug)]
pub struct Turn<'a> {
    waker: &'a Waker,
    take_order: TakeOrder,
    stop: Stop<'a>,
    pending: Pending,
}

/// The point at which a step-by-step pull stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop<'a> {
    /// The pull does not stop.
    #[default]
    Never,
    /// Once the operator with this name has produced an item or an error.
    At(&'a str),
    /// The pull has stopped and does nothing else.
    Stopped,
}

/// The conditions for which an unsuccessful pull is waiting.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Everything that could provide an item, or `None` if this is unknown because the waker was taken.
    pub(crate) needs: Option<Vec<Need>>,
    /// The latest time at which to pull again.
    pub(crate) again: Option<Instant>,
}

impl Default for Pending {
    fn default() -> Self {
        Self { needs: Some(Vec::new()), again: None }
    }
}

impl Pending {
    /// Returns whether no condition was declared.
    pub(crate) fn is_for_nothing(&self) -> bool {
        self.needs.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns these conditions and later ones.
    pub(crate) fn and(self, later: Self) -> Self {
        let needs = match (self.needs, later.needs) {
            (Some(needs), Some(later)) if needs.is_empty() => Some(later),
            (Some(mut needs), Some(later)) => {
                needs.extend(later);
                Some(needs)
            }
            _ => None,
        };
        Self { needs, again: self.again.into_iter().chain(later.again).min() }
    }

    /// Returns whether a source without an item is pulled again before long.
    fn has_retry(&self) -> bool {
        self.needs.as_ref().is_some_and(|needs| needs.iter().any(Need::is_retry))
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn new(waker: &'a Waker, take_order: TakeOrder) -> Self {
        Self { waker, take_order, stop: Stop::Never, pending: Pending::default() }
    }

    /// Returns this pull with the given stopping point.
    pub(crate) fn stopping(self, stop: Stop<'a>) -> Self {
        Self { stop, ..self }
    }

    /// Returns where this pull stops.
    #[inline]
    pub(crate) fn stop(&self) -> Stop<'a> {
        self.stop
    }

    /// Stops this pull: the operators do nothing else.
    pub(crate) fn set_stopped(&mut self) {
        self.stop = Stop::Stopped;
    }

    /// Returns whether this pull has stopped and should do nothing else. An operator that pulls from a stopped part of
    /// the graph must leave its state unchanged.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop == Stop::Stopped
    }

    /// Returns a pull of a part of the graph with another waker. [`follow`](Self::follow) adds its waits to this pull.
    pub(crate) fn over<'b>(&self, waker: &'b Waker) -> Turn<'b>
    where
        'a: 'b,
    {
        Turn::new(waker, self.take_order).stopping(self.stop)
    }

    /// Adds to this pull what the pull of a part of the graph waits for.
    pub(crate) fn follow(&mut self, part: Turn<'_>) {
        if part.is_stopped() {
            self.set_stopped();
        }
        self.add_pending(part.pending);
    }

    /// Returns the waker to call once there is an item.
    pub fn waker(&mut self) -> &'a Waker {
        self.pending.needs = None;
        self.waker
    }

    /// Requests another pull at the given moment, unless something wakes the flow earlier.
    pub fn wake_at(&mut self, moment: Instant) {
        self.add_pending(Pending { needs: None, again: Some(moment) });
    }

    /// Like [`wake_at`](Self::wake_at), for a source that reports that it has no item, rather than waiting for one. A
    /// [union](crate::Flow::union) that waits for the items of its flows then continues with its other flows, and pulls
    /// this source again in its next turn. Whether the source has an item should depend only on what has been pulled so
    /// far if the order of the union is to be deterministic.
    pub fn not_ready_until(&mut self, moment: Instant) {
        self.add_pending(Pending { needs: Some(vec![Need::Retry]), again: Some(moment) });
    }

    /// Like [`wake_at`](Self::wake_at), for the deadline of an operator whose upstream has no item. It does not turn a
    /// report of [`not_ready_until`](Self::not_ready_until) into a wait.
    pub(crate) fn expire_at(&mut self, moment: Instant) {
        let needs = self.pending.has_retry().then(Vec::new);
        self.add_pending(Pending { needs, again: Some(moment) });
    }

    /// Like [`waker`](Self::waker), but declares which part of the graph will call the waker. This makes it possible to
    /// detect a wait that never ends.
    pub(crate) fn waker_for(&mut self, need: Need) -> &'a Waker {
        if let Some(needs) = &mut self.pending.needs {
            needs.push(need);
        }
        self.waker
    }

    /// Takes the conditions that were declared so far out of this pull.
    pub(crate) fn take_pending(&mut self) -> Pending {
        std::mem::take(&mut self.pending)
    }

    /// Adds conditions to this pull.
    pub(crate) fn add_pending(&mut self, later: Pending) {
        self.pending = self.take_pending().and(later);
    }

    /// Returns whether this thread itself can meet all declared conditions: parts of the graph that it pulls, and sources
    /// that it pulls again. With `with_new`, parts that nothing has pulled so far also count.
    pub(crate) fn waits_for_own_parts(&self, with_new: bool) -> bool {
        let needs = self.pending.needs.as_ref();
        needs.is_some_and(|needs| {
            !needs.is_empty() && needs.iter().all(|need| need.is_of_this_thread(with_new))
        })
    }

    /// Returns the puller's waker, without marking it as taken.
    pub(crate) fn outer_waker(&self) -> &'a Waker {
        self.waker
    }

    /// Returns the order in which this pull takes items from shards.
    pub(crate) fn take_order(&self) -> TakeOrder {
        self.take_order
    }

    /// Sets the order in which this pull takes items from shards, and returns the previous order.
    pub(crate) fn set_take_order(&mut self, take_order: TakeOrder) -> TakeOrder {
        std::mem::replace(&mut self.take_order, take_order)
    }

    /// Returns the waits of this pull.
    pub(crate) fn into_pending(self) -> Pending {
        self.pending
    }
}
