//! Merges shards into one stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use super::parflow::ParFlow;
use super::shards::Shards;
use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::node::Node;
use crate::pull::{Polled, Pull, TakeOrder, Turn};
use crate::{Flow, Result};

/// How far shards work ahead of the puller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Async {
    /// The maximum number of items per shard that are being produced or are waiting for the puller, at least 1.
    pub depth: usize,
    /// When to request the next item.
    pub resubmit: Resubmit,
}

impl Default for Async {
    /// Returns a depth of one item, with the next item requested before the current item is returned.
    fn default() -> Self {
        Self { depth: 1, resubmit: Resubmit::Before }
    }
}

/// When to request the next item of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resubmit {
    /// Before an item is returned, so that the shard works while the consumer processes the item. The shard sees the
    /// consumer's changes `depth` items later.
    Before,
    /// When the next item is pulled, so that the shard sees the consumer's changes; with a depth of 1, it sees them in
    /// the next item.
    After,
}

/// One item from each shard per round.
struct Rounds<T> {
    shards: Shards<T>,
    /// The results of each shard for the current round, by index.
    round: Vec<Option<Result<Tagged<T>>>>,
    is_asked: bool,
}

impl<T: Send + 'static> Rounds<T> {
    /// Returns the next round: one item from each shard that has not ended, in order.
    fn poll_round(&mut self, turn: &mut Turn<'_>) -> Poll<Result<Vec<Result<Tagged<T>>>>> {
        if let Err(error) = self.shards.start(0, TakeOrder::InTurn) {
            return Poll::Ready(Err(error));
        }
        if !std::mem::replace(&mut self.is_asked, true) {
            self.shards.runners.iter_mut().for_each(|runner| runner.ask(1));
            self.round = self.shards.runners.iter().map(|_| None).collect();
        }
        let mut ended = Vec::new();
        let mut is_complete = true;
        for (place, runner) in self.shards.runners.iter_mut().enumerate() {
            let Some(slot @ None) = self.round.get_mut(place) else { continue };
            match runner.poll_next(turn) {
                Poll::Ready(Some(item)) => *slot = Some(item),
                Poll::Ready(None) => ended.push(place),
                Poll::Pending => is_complete = false,
            }
        }
        for place in ended.into_iter().rev() {
            self.shards.remove(place);
            self.round.remove(place);
        }
        if !is_complete {
            return Poll::Pending;
        }
        self.is_asked = false;
        let mut round: Vec<_> = std::mem::take(&mut self.round).into_iter().flatten().collect();
        let failed = round.iter().filter(|item| item.is_err()).count();
        if !self.shards.gives_errors_on(self.shards.runners.len().saturating_sub(failed)) {
            round.retain(Result::is_ok);
        }
        Poll::Ready(Ok(round))
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.holds(self.round.iter().flatten().count());
        checkpoint.flag(&mut self.is_asked);
        self.shards.checkpoint(checkpoint, TakeOrder::InTurn)?;
        if self.is_asked {
            self.round.resize_with(self.shards.runners.len(), || None);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.shards.runners.is_empty() && self.shards.waiting.is_empty()
    }
}

/// Yields the items of rounds one by one.
struct GatherSync<T> {
    rounds: Rounds<T>,
    ready: std::vec::IntoIter<Result<Tagged<T>>>,
}

impl<T: Send + 'static> Pull<T> for GatherSync<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        loop {
            if let Some(item) = self.ready.next() {
                return Poll::Ready(Some(item));
            }
            if self.rounds.is_over() {
                return Poll::Ready(None);
            }
            match self.rounds.poll_round(turn) {
                Poll::Ready(Ok(round)) => self.ready = round.into_iter(),
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.holds(self.ready.len());
        self.rounds.checkpoint(checkpoint)
    }
}

/// Yields whole rounds.
struct Across<T> {
    rounds: Rounds<T>,
    /// The errors of the current round, and then its items.
    ready: VecDeque<Result<Vec<T>>>,
}

impl<T: Send + 'static> Across<T> {
    fn keep(&mut self, round: Vec<Result<Tagged<T>>>) {
        let mut items = Vec::with_capacity(round.len());
        for item in round {
            match item {
                Ok(tagged) => items.push(tagged.item),
                Err(error) => self.ready.push_back(Err(error)),
            }
        }
        if !items.is_empty() {
            self.ready.push_back(Ok(items));
        }
    }
}

impl<T: Send + 'static> Pull<Vec<T>> for Across<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Vec<T>> {
        loop {
            if let Some(items) = self.ready.pop_front() {
                return Poll::Ready(Some(items.map(|item| Tagged { item, source: None })));
            }
            if self.rounds.is_over() {
                return Poll::Ready(None);
            }
            match self.rounds.poll_round(turn) {
                Poll::Ready(Ok(round)) => self.keep(round),
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.holds(self.ready.len());
        self.rounds.checkpoint(checkpoint)
    }
}

/// Yields available items, visiting the shards in turn.
struct GatherAsync<T> {
    shards: Shards<T>,
    mode: Async,
    take_order: TakeOrder,
    at: usize,
    /// The shard from which to request another item.
    deferred: Option<usize>,
}

impl<T: Send + 'static> GatherAsync<T> {
    fn new(shards: Shards<T>, mode: Async, take_order: TakeOrder) -> Self {
        Self { shards, mode, take_order, at: 0, deferred: None }
    }

    fn settle(&mut self) {
        if let Some(runner) = self.deferred.take().and_then(|place| self.shards.runners.get_mut(place)) {
            runner.ask(1);
        }
    }

    /// Ends a shard. The shards after it move up by one place.
    fn remove(&mut self, place: usize) {
        self.shards.remove(place);
        self.deferred = self.deferred.filter(|deferred| *deferred != place);
        if let Some(deferred) = self.deferred.as_mut().filter(|deferred| **deferred > place) {
            *deferred -= 1;
        }
    }

    fn handed_out(&mut self, place: usize) {
        self.settle();
        self.deferred = Some(place);
        if self.mode.resubmit == Resubmit::Before {
            self.settle();
        }
    }
}

impl<T: Send + 'static> Pull<T> for GatherAsync<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        if let Err(error) = self.shards.start(self.mode.depth.max(1), self.take_order) {
            return Poll::Ready(Some(Err(error)));
        }
        self.settle();
        let mut idle = 0;
        while idle < self.shards.runners.len() {
            let place = self.at % self.shards.runners.len();
            let Some(runner) = self.shards.runners.get_mut(place) else { break };
            match runner.poll_next(turn) {
                Poll::Ready(Some(item)) => {
                    self.at = place + 1;
                    self.handed_out(place);
                    if item.is_ok() || self.shards.gives_errors_on(self.shards.runners.len() - 1) {
                        return Poll::Ready(Some(item));
                    }
                    idle = 0;
                }
                Poll::Ready(None) => {
                    self.remove(place);
                    self.at = place;
                    idle = 0;
                }
                Poll::Pending if turn.is_stopped() => {
                    self.at = place;
                    return Poll::Pending;
                }
                Poll::Pending => {
                    self.at = place + 1;
                    idle += 1;
                }
            }
        }
        if self.shards.runners.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let (mut is_owed, mut deferred) = (self.deferred.is_some(), self.deferred.unwrap_or(0));
        checkpoint.count(&mut self.at);
        checkpoint.flag(&mut is_owed);
        checkpoint.count(&mut deferred);
        self.deferred = is_owed.then_some(deferred);
        self.shards.checkpoint(checkpoint, self.take_order)
    }
}

impl<T: Send + 'static, S: Send + 'static> ParFlow<T, S> {
    fn gathered<U: Send + 'static, P: Pull<U> + 'static>(
        self,
        (name, is_queue): (&str, bool),
        pull: impl FnOnce(Shards<T>) -> P,
    ) -> Flow<U> {
        let name = format!("{name} of {} shards", self.plans.len());
        let sources = self.plans.iter().map(|plan| plan.shard.source().0 + 1).max().unwrap_or(0);
        let shards = Shards::of(self);
        let node = Node::of_shards(name, Arc::clone(&shards.nodes), is_queue);
        let metrics = shards.metrics.clone();
        Flow::new(pull(shards), node, metrics).with_sources(sources)
    }

    /// Returns one item from each shard in turn, in order. The shards produce a complete round before any of its items
    /// is returned, and do not begin the next round until all items have been taken. A change between two rounds
    /// therefore affects the whole next round.
    #[must_use]
    pub fn gather_sync(self) -> Flow<T> {
        self.gathered(("gather_sync", true), |shards| {
            let rounds = Rounds { shards, round: Vec::new(), is_asked: false };
            GatherSync { rounds, ready: Vec::new().into_iter() }
        })
    }

    /// Returns the rounds of [`gather_sync`](Self::gather_sync), each as a list. Shards that have ended are omitted. The
    /// errors of a round precede the list of its items.
    #[must_use]
    pub fn batch_across_shards(self) -> Flow<Vec<T>> {
        self.gathered(("batch_across_shards", false), |shards| {
            let rounds = Rounds { shards, round: Vec::new(), is_asked: false };
            Across { rounds, ready: VecDeque::new() }
        })
    }

    /// Returns the items of all shards in order of arrival. The items of one shard keep their order. With
    /// [`Executor::Serial`](super::Executor::Serial), the shards take turns.
    #[must_use]
    pub fn gather_async(self, mode: Async) -> Flow<T> {
        self.gathered(("gather_async", true), |shards| GatherAsync::new(shards, mode, TakeOrder::Arrival))
    }

    /// Returns each shard as a separate flow, which works up to `depth` items ahead.
    #[must_use]
    pub fn into_flows(self, depth: usize) -> Vec<Flow<T>> {
        let ParFlow { plans, on_failure } = self;
        let alone = |plan| ParFlow { plans: vec![plan], on_failure };
        let mode = Async { depth, resubmit: Resubmit::Before };
        let flow = |shard: ParFlow<T, S>| {
            shard.gathered(("gather_async", true), |shards| GatherAsync::new(shards, mode, TakeOrder::InTurn))
        };
        plans.into_iter().map(|plan| flow(alone(plan))).collect()
    }

    /// Returns the first `count` items of [`gather_sync`](Self::gather_sync).
    #[must_use]
    pub fn take(self, count: usize) -> Flow<T> {
        self.gather_sync().take(count)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::par::runner::Runner;
    use crate::{Executor, OnFailure};

    struct Silent;

    impl Pull<u32> for Silent {
        fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<u32> {
            turn.waker();
            Poll::Pending
        }
    }

    /// The request for the next item of a dropped shard must not go to the shard that takes its place.
    #[test]
    fn a_dropped_shard_leaves_the_depth_of_the_others() {
        let failing = ParFlow::from_items(&Executor::Serial, [0], 1)
            .on_each(|flow, _| flow.try_for_each(|_| Err::<u32, _>("failed")));
        let silent = ParFlow::from_flows(&Executor::Serial, 1, |_| (), |_| Flow::from_pull("silent", Silent));
        let shards = Shards::of(failing.union(silent).on_failure(OnFailure::DropShard));
        let mode = Async { depth: 1, resubmit: Resubmit::After };
        let mut gathered = GatherAsync::new(shards, mode, TakeOrder::Arrival);
        for _ in 0..2 {
            let mut turn = Turn::new(Waker::noop(), TakeOrder::Arrival);
            assert!(gathered.poll_next(&mut turn).is_pending());
        }
        let [Runner::Here { wanted, .. }] = &gathered.shards.runners[..] else { panic!("one shard is left") };
        assert_eq!(*wanted, 1);
    }
}
