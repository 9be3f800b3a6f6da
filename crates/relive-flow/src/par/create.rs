//! Creates shards.

use std::sync::Arc;
use std::task::Poll;

use super::executor::{Executor, OnFailure};
use super::parflow::ParFlow;
use super::shard::{Make, Plan, Shard, of_shard};
use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

/// Produces items by calling a function with the shard's state, which also includes its position.
struct OfState<S, F> {
    shard: Shard<S>,
    items: F,
}

impl<T, S: Send, F: FnMut(&mut S) -> Option<T> + Send> Pull<T> for OfState<S, F> {
    fn poll_next(&mut self, _: &mut Turn<'_>) -> Polled<T> {
        let item = self.shard.with(|state| (self.items)(state));
        Poll::Ready(item.map(|item| Ok(Tagged { item, source: None })))
    }

    fn checkpoint(&mut self, _: &mut Checkpoint) -> Result<()> {
        Ok(())
    }
}

impl<T: Send + 'static, S: Send + 'static> ParFlow<T, S> {
    /// Creates `shards` shards. `state` creates a shard's state from its number; `items` produces items from the state
    /// until it returns `None`. Both are called again when a shard is [restarted](OnFailure::Restart).
    #[must_use]
    pub fn from_states(
        executor: &Executor,
        shards: u32,
        state: impl Fn(u32) -> S + Send + Sync + 'static,
        items: impl FnMut(&mut S) -> Option<T> + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::from_flows(executor, shards, state, move |shard| {
            Flow::from_pull("items", OfState { shard: shard.clone(), items: items.clone() })
        })
    }

    /// Creates `shards` shards, each with a state and a stream.
    #[must_use]
    pub fn from_flows(
        executor: &Executor,
        shards: u32,
        state: impl Fn(u32) -> S + Send + Sync + 'static,
        flow: impl Fn(&Shard<S>) -> Flow<T> + Send + Sync + 'static,
    ) -> Self {
        let state = Arc::new(state);
        let make: Make<T, S> = Arc::new(move |shard: &Shard<S>| {
            let source = shard.source();
            of_shard(flow(shard), source)
        });
        let plans = (0..shards).map(|number| {
            let state = Arc::clone(&state);
            let state: Arc<dyn Fn() -> S + Send + Sync> = Arc::new(move || state(number));
            let (shard, executor) = (Shard::new(number, state()), executor.clone());
            Plan { shard, executor, state, make: Arc::clone(&make), around: None }
        });
        Self { plans: plans.collect(), on_failure: OnFailure::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> ParFlow<T> {
    /// Distributes the items over `shards` shards: item number i goes to shard i mod `shards`.
    #[must_use]
    pub fn from_items(executor: &Executor, items: impl IntoIterator<Item = T>, shards: u32) -> Self {
        let items: Arc<Vec<T>> = Arc::new(items.into_iter().collect());
        Self::from_flows(
            executor,
            shards,
            |_| (),
            move |shard| {
                let (items, mut next) = (Arc::clone(&items), shard.number() as usize);
                let item = move || {
                    let item = items.get(next).cloned();
                    next = next.saturating_add(shards as usize);
                    item
                };
                Flow::from_iter("items", std::iter::from_fn(item))
            },
        )
    }
}

impl ParFlow<u64> {
    /// Distributes the numbers below `count` over `shards` shards, in ranges; the last shard takes the
    /// remainder.
    #[must_use]
    pub fn from_range(executor: &Executor, count: u64, shards: u32) -> Self {
        let length = count / u64::from(shards.max(1));
        Self::from_flows(
            executor,
            shards,
            |_| (),
            move |shard| {
                let number = u64::from(shard.number());
                let end = if number + 1 == u64::from(shards) { count } else { (number + 1) * length };
                Flow::from_iter("range", number * length..end)
            },
        )
    }
}
