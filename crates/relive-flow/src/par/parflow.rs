//! Parallel streams, and their operators.

use std::fmt;
use std::sync::Arc;

use super::executor::{Executor, OnFailure};
use super::shard::{Make, Plan, Shard, of_shard};
use crate::Flow;
use crate::item::Source;

/// One stream per shard. Operators added here run in the shards, concurrently if the [`Executor`] uses
/// threads. The gathering operators merge the shards into one [`Flow`].
///
/// ```
/// use relive_flow::{Executor, ParFlow};
///
/// let squares = ParFlow::from_range(&Executor::Threads, 10, 2).for_each(|number| number * number).gather_sync();
/// assert_eq!(squares.into_iter().collect::<Result<Vec<_>, _>>()?, [0, 25, 1, 36, 4, 49, 9, 64, 16, 81]);
/// # Ok::<(), relive_flow::FlowError>(())
/// ```
pub struct ParFlow<T, S = ()> {
    pub(super) plans: Vec<Plan<T, S>>,
    pub(super) on_failure: OnFailure,
}

impl<T: Send + 'static, S: Send + 'static> ParFlow<T, S> {
    /// Applies a function to each shard's stream. Any operator of a [`Flow`] can be used. All items of the new stream
    /// have the shard as their source, even if it was created anew.
    #[must_use]
    pub fn on_each<U: Send + 'static>(
        self,
        operators: impl Fn(Flow<T>, &Shard<S>) -> Flow<U> + Send + Sync + 'static,
    ) -> ParFlow<U, S> {
        self.then(move |flow, shard| of_shard(operators(flow, shard), shard.source()))
    }

    /// Applies operators that keep the source of items.
    fn then<U: Send + 'static>(
        self,
        operators: impl Fn(Flow<T>, &Shard<S>) -> Flow<U> + Send + Sync + 'static,
    ) -> ParFlow<U, S> {
        let operators = Arc::new(operators);
        let plans = self.plans.into_iter().map(|Plan { shard, executor, state, make, around }| {
            let operators = Arc::clone(&operators);
            let make: Make<U, S> = Arc::new(move |shard| operators(make(shard), shard));
            Plan { shard, executor, state, make, around }
        });
        ParFlow { plans: plans.collect(), on_failure: self.on_failure }
    }

    /// Applies `function` to each item. Each shard has a copy of the function.
    #[must_use]
    pub fn for_each<U: Send + 'static>(
        self,
        function: impl FnMut(T) -> U + Clone + Send + Sync + 'static,
    ) -> ParFlow<U, S> {
        self.then(move |flow, _| flow.for_each(function.clone()))
    }

    /// Keeps the items for which `keep` returns true.
    #[must_use]
    pub fn filter(self, keep: impl FnMut(&T) -> bool + Clone + Send + Sync + 'static) -> Self {
        self.then(move |flow, _| flow.filter(keep.clone()))
    }

    /// Returns lists of `size` items from a shard. The last list of a shard may be shorter.
    #[must_use]
    pub fn batch(self, size: usize) -> ParFlow<Vec<T>, S> {
        self.then(move |flow, _| flow.batch(size))
    }

    /// Applies `function` to each item, and flattens the results, which may be empty.
    #[must_use]
    pub fn combine<C>(
        self,
        function: impl FnMut(T) -> C + Clone + Send + Sync + 'static,
    ) -> ParFlow<C::Item, S>
    where
        C: IntoIterator + Send + 'static,
        C::IntoIter: Send + 'static,
        C::Item: Send + 'static,
    {
        self.then(move |flow, _| flow.combine(function.clone()))
    }

    /// Returns the items of a shard in random order; see [`Flow::shuffle`]. Each shard has its own random stream.
    #[must_use]
    pub fn local_shuffle(self, buffer: usize, seed: u64) -> Self {
        self.then(move |flow, shard| flow.shuffle(buffer, seed.wrapping_add(u64::from(shard.source().0))))
    }

    /// Names the last operator in each shard; see [`Flow::named`].
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let name = name.to_owned();
        self.then(move |flow, _| flow.named(&name))
    }

    /// Returns the shards of both flows, with the shards of `other` last; each shard keeps its operators and runs where
    /// it ran before. The failures of all shards are handled as this flow's are.
    #[must_use]
    pub fn union(mut self, other: ParFlow<T, S>) -> Self {
        self.plans.extend(other.plans);
        self.number_sources();
        self
    }

    /// Keeps only the shards at the given positions, and numbers their sources from 0; unknown positions are ignored.
    #[must_use]
    pub fn select_shards(mut self, positions: &[u32]) -> Self {
        let mut position = 0..;
        self.plans.retain(|_| position.next().is_some_and(|position| positions.contains(&position)));
        self.number_sources();
        self
    }

    fn number_sources(&mut self) {
        for (number, plan) in (0..).zip(&mut self.plans) {
            plan.shard.source = Source(number);
        }
    }

    /// Sets what happens when a shard fails. By default, the error is passed on, and the shard continues with its next
    /// item.
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Makes the threads of shards produce all currently requested items inside one call of this function, which receives
    /// the shard's [number](Shard::number) and calls its second argument, which makes one item, until the argument returns
    /// false. A lock that each item needs, such as an interpreter's, is then acquired once for all of them, and a lock for
    /// one item is released between two of them. Waiting, creating and ending a shard, and operators after
    /// [`repartition`](Self::repartition) are outside the function.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use relive_flow::{Async, Executor, ParFlow};
    ///
    /// let lock = Arc::new(Mutex::new(0));
    /// let in_threads = Arc::clone(&lock);
    /// let shards = ParFlow::from_range(&Executor::Threads, 10, 1).around(move |_shard, make| {
    ///     let mut makes_more = true;
    ///     while makes_more {
    ///         let mut items = in_threads.lock().unwrap();
    ///         makes_more = make();
    ///         *items += 1;
    ///     }
    /// });
    /// assert_eq!(shards.gather_async(Async { depth: 4, ..Async::default() }).into_iter().count(), 10);
    /// // The last call has found the end.
    /// assert_eq!(*lock.lock().unwrap(), 11);
    /// ```
    #[must_use]
    pub fn around(
        mut self,
        around: impl Fn(u32, &mut dyn FnMut() -> bool) + Clone + Send + Sync + 'static,
    ) -> Self {
        for plan in &mut self.plans {
            let (around, number) = (around.clone(), plan.shard.number());
            plan.around = Some(Arc::new(move |make| around(number, make)));
        }
        self
    }

    /// Returns the shards, for sending messages to them.
    #[must_use]
    pub fn shards(&self) -> Vec<Shard<S>> {
        self.plans.iter().map(|plan| plan.shard.clone()).collect()
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn num_shards(&self) -> usize {
        self.plans.len()
    }
}

impl<T: Send + 'static, S: Send + 'static, C> ParFlow<C, S>
where
    C: IntoIterator<Item = T> + Send + 'static,
    C::IntoIter: Send + 'static,
{
    /// Flattens the items.
    #[must_use]
    pub fn flatten(self) -> ParFlow<T, S> {
        self.then(|flow, _| flow.flatten())
    }
}

impl<T, S> ParFlow<T, S> {
    /// Returns [`Executor::Threads`] if one of the shards runs in a thread.
    pub(super) fn executor(&self) -> Executor {
        let executors = self.plans.iter().map(|plan| &plan.executor);
        executors.max_by_key(|executor| **executor == Executor::Threads).cloned().unwrap_or_default()
    }
}

impl<T, S> fmt::Debug for ParFlow<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParFlow")
            .field("shards", &self.plans.len())
            .field("executor", &self.executor())
            .field("on_failure", &self.on_failure)
            .finish()
    }
}
