//! Distributes the items of shards to other shards.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Instant;

use super::executor::OnFailure;
use super::parflow::ParFlow;
use super::shard::{Make, Plan, Shard, of_shard};
use super::shards::Shards;
use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::pull::{Polled, Pull, TakeOrder, Turn};
use crate::shared_waker::SharedWaker;
use crate::sync::Mutex;
use crate::waits::{FIRST_PULL_TIMEOUT, Need, Part, Puller};
use crate::{ErrorKind, Flow, FlowError, Result};

/// The maximum number of items that may wait for one new shard. If more are waiting, the old shards wait for the new
/// shard.
const MAX_WAITING: usize = 1_000;

/// The state that the old shards and the new shards share.
struct Exchange<T> {
    old: Shards<T>,
    /// For each old shard that has not ended, the new shard that receives its next item.
    next: Vec<usize>,
    /// The old shard that is polled next.
    at: usize,
    new: Vec<NewShardQueue<T>>,
    /// The new shards to wake if they are waiting.
    to_wake: Vec<usize>,
}

/// The queue of a new shard.
struct NewShardQueue<T> {
    items: VecDeque<Result<Tagged<T>>>,
    /// The thread that last pulled this shard.
    puller: Option<Weak<Puller>>,
    /// When this shard began to wait for other shards to be pulled.
    waits_since: Option<Instant>,
    /// Whether the shard will never be pulled again.
    is_gone: bool,
}

impl<T> NewShardQueue<T> {
    fn is_full(&self) -> bool {
        self.items.len() >= MAX_WAITING
    }
}

/// The reasons why no item is available.
#[derive(Default)]
struct IdleReasons {
    /// The number of old shards without an item.
    pending: usize,
    /// The number of old shards that are blocked by the full queue of another new shard, and the last such new shard.
    blocked: usize,
    by: usize,
}

impl<T: Send + 'static> Exchange<T> {
    /// Returns the next item of a new shard.
    fn poll_next(&mut self, number: usize, turn: &mut Turn<'_>) -> Polled<T> {
        if let Err(error) = self.old.start(1, turn.take_order()) {
            return Poll::Ready(Some(Err(error)));
        }
        let mut idle = IdleReasons::default();
        loop {
            if let Some(item) = self.take(number) {
                return Poll::Ready(Some(item));
            }
            if idle.pending + idle.blocked >= self.old.runners.len() {
                return self.nothing(number, &idle, turn);
            }
            let place = self.at % self.old.runners.len();
            let to = self.next.get(place).copied().unwrap_or(0);
            self.at = place + 1;
            if to != number && self.new.get(to).is_some_and(NewShardQueue::is_full) {
                (idle.blocked, idle.by) = (idle.blocked + 1, to);
                continue;
            }
            match self.old.runners.get_mut(place).map_or(Poll::Ready(None), |old| old.poll_next(turn)) {
                Poll::Pending => idle.pending += 1,
                Poll::Ready(item) => {
                    idle = IdleReasons::default();
                    self.accept(place, to, item);
                }
            }
        }
    }

    fn take(&mut self, number: usize) -> Option<Result<Tagged<T>>> {
        let own = self.new.get_mut(number)?;
        let was_full = own.is_full();
        let item = own.items.pop_front();
        if item.is_some() {
            own.waits_since = None;
        }
        if was_full {
            self.mark_all_to_wake();
        }
        item
    }

    fn mark_all_to_wake(&mut self) {
        self.to_wake.extend(0..self.new.len());
    }

    /// Processes the result of an old shard.
    fn accept(&mut self, place: usize, to: usize, item: Option<Result<Tagged<T>>>) {
        let Some(item) = item else {
            self.mark_all_to_wake();
            self.old.remove(place);
            self.next.remove(place);
            self.at = place;
            return;
        };
        if let (Some(old), Some(next)) = (self.old.runners.get_mut(place), self.next.get_mut(place)) {
            old.ask(1);
            *next = (to + 1) % self.new.len();
        }
        let is_passed_on = item.is_ok() || self.old.gives_errors_on(self.old.runners.len() - 1);
        if let Some(new) = self.new.get_mut(to).filter(|new| is_passed_on && !new.is_gone) {
            new.items.push_back(item);
            self.to_wake.push(to);
        }
    }

    /// Handles the case where no old shard has an item for this new shard.
    fn nothing(&mut self, number: usize, idle: &IdleReasons, turn: &mut Turn<'_>) -> Polled<T> {
        if self.old.runners.is_empty() {
            return Poll::Ready(None);
        }
        if idle.blocked > 0 {
            let text = format!(
                "repartition({}): {MAX_WAITING} items wait for new shard {}, which nothing pulls, while new \
                 shard {number} waits for its next item; pull both evenly, or gather them with gather_async",
                self.new.len(),
                idle.by
            );
            if idle.pending == 0 && turn.take_order() == TakeOrder::InTurn {
                return Poll::Ready(Some(Err(FlowError::new(ErrorKind::Deadlock, text))));
            }
            let puller = self.new.get(idle.by).and_then(|new| new.puller.clone());
            let since = self.new.get_mut(number).map(|own| *own.waits_since.get_or_insert_with(Instant::now));
            let until = since.unwrap_or_else(Instant::now) + FIRST_PULL_TIMEOUT;
            let part = Part { name: format!("new shard {}", idle.by), puller, until };
            turn.waker_for(Need::Parts(vec![part], text));
        }
        Poll::Pending
    }
}

/// The end of the exchange from which a new shard takes items. Dropping it also drops the shard's items.
struct Inlet<T> {
    exchange: Arc<Mutex<Exchange<T>>>,
    shared_waker: Arc<SharedWaker>,
    /// Wakes all other pullers.
    waker: Waker,
    number: usize,
}

impl<T: Send + 'static> Inlet<T> {
    fn poll_next(&self, turn: &mut Turn<'_>) -> Polled<T> {
        let mut exchange = self.exchange.lock();
        if let Some(own) = exchange.new.get_mut(self.number) {
            Puller::note(&mut own.puller);
            if own.items.is_empty() {
                // This must precede polling, so that later arrivals wake the shard.
                self.shared_waker.add(self.number, turn.outer_waker());
            }
        }
        let mut part = turn.over(&self.waker);
        let polled = exchange.poll_next(self.number, &mut part);
        turn.follow(part);
        let to_wake = std::mem::take(&mut exchange.to_wake);
        drop(exchange);
        if to_wake.iter().any(|number| *number != self.number) {
            self.shared_waker.wake_selected(|number| number != self.number && to_wake.contains(&number));
        }
        polled
    }

    fn flow(self: &Arc<Self>) -> Flow<T> {
        let (node, metrics) = {
            let exchange = self.exchange.lock();
            let name = format!("repartition({})", exchange.new.len());
            (Node::of_shards(name, Arc::clone(&exchange.old.nodes), false), exchange.old.metrics.clone())
        };
        Flow::new(NewShard(Arc::clone(self)), node, metrics)
    }
}

impl<T> Drop for Inlet<T> {
    fn drop(&mut self) {
        let mut exchange = self.exchange.lock();
        let left = exchange.new.get_mut(self.number).map(|own| {
            own.is_gone = true;
            std::mem::take(&mut own.items)
        });
        drop(exchange);
        drop(left);
        self.shared_waker.wake_selected(|number| number != self.number);
    }
}

/// The items for one new shard.
struct NewShard<T>(Arc<Inlet<T>>);

impl<T: Send + 'static> Pull<T> for NewShard<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        self.0.poll_next(turn)
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        if !checkpoint.is_first_at(Arc::as_ptr(&self.0.exchange).addr()) {
            return Ok(());
        }
        let mut exchange = self.0.exchange.lock();
        checkpoint.holds(exchange.new.iter().map(|new| new.items.len()).sum());
        checkpoint.count(&mut exchange.at);
        checkpoint.places(&mut exchange.next);
        exchange.old.checkpoint(checkpoint, TakeOrder::InTurn)?;
        let (old, new) = (exchange.old.live(), exchange.new.len());
        if exchange.next.len() != old || exchange.next.iter().any(|to| *to >= new) {
            return Err(checkpoint.refusal("it was saved with different shards"));
        }
        Ok(())
    }
}

impl<T: Send + 'static, S: Send + 'static> ParFlow<T, S> {
    /// Distributes the items to `shards` new shards: item j of each old shard, counted from 0, goes to new shard j mod
    /// `shards`. The set of items of each new shard is therefore deterministic. Items of one old shard keep their
    /// order. The order in which items of different old shards are interleaved is unspecified, except with
    /// [`Executor::Serial`](super::Executor::Serial), where it is deterministic. An error counts as an item.
    ///
    /// An old shard works one item ahead. Up to 1,000 items may wait for a new shard; if there are more, the old shards
    /// wait until the new shard is pulled. With operators that pull shards in turn ([`gather_sync`](Self::gather_sync),
    /// [`batch_across_shards`](Self::batch_across_shards), [`into_flows`](Self::into_flows)), a shard that is 1,000
    /// items ahead of another shard gets an [`ErrorKind::Deadlock`] error, since the other shard might never be pulled.
    /// If `shards` is 0, the first pull returns an [`ErrorKind::Invalid`] error.
    ///
    /// ```
    /// use relive_flow::{Executor, ParFlow};
    ///
    /// let dealt = ParFlow::from_items(&Executor::Threads, 0..7, 1).repartition(3).batch_across_shards();
    /// assert_eq!(dealt.into_iter().collect::<Result<Vec<_>, _>>()?, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn repartition(self, shards: u32) -> ParFlow<T> {
        let executor = self.executor();
        let plan = |number, make| {
            let (shard, executor) = (Shard::new(number, ()), executor.clone());
            Plan { shard, executor, state: Arc::new(|| ()), make, around: None }
        };
        if shards == 0 {
            let refused: Make<T, ()> = Arc::new(|_| {
                let node = Node::new("repartition(0)", Vec::new());
                Flow::refused(node, Metrics::default(), "the number of new shards must be at least 1")
            });
            let plans = vec![plan(0, refused)];
            return ParFlow { plans, on_failure: OnFailure::default() };
        }
        let next = vec![0; self.plans.len()];
        let old = Shards::of(self);
        let waiting =
            |_| NewShardQueue { items: VecDeque::new(), puller: None, waits_since: None, is_gone: false };
        let new = (0..shards).map(waiting).collect();
        let exchange = Arc::new(Mutex::new(Exchange { old, next, at: 0, new, to_wake: Vec::new() }));
        let shared_waker = Arc::<SharedWaker>::default();
        let plans = (0..shards).map(|number| {
            let (exchange, shared_waker) = (Arc::clone(&exchange), Arc::clone(&shared_waker));
            let waker = Waker::from(Arc::clone(&shared_waker));
            let place = Arc::new(Inlet { exchange, shared_waker, waker, number: number as usize });
            let make: Make<T, ()> = Arc::new(move |shard| of_shard(place.flow(), shard.source()));
            plan(number, make)
        });
        ParFlow { plans: plans.collect(), on_failure: OnFailure::default() }
    }
}
