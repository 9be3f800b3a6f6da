//! Streams side by side, and what is done in each of them.

use std::fmt;
use std::sync::Arc;

use super::executor::{Around, Executor, OnFailure};
use super::shard::{Make, Plan, Shard};
use crate::Flow;
use crate::item::Source;

/// One stream in each of some shards. What is done here is done in the shards, side by side if the [`Executor`] is
/// one that can; the gathering operators make one [`Flow`] of them.
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
    pub(super) executor: Executor,
    pub(super) around: Option<Around>,
    pub(super) on_failure: OnFailure,
}

impl<T: Send + 'static, S: Send + 'static> ParFlow<T, S> {
    /// Does the same with the stream of each shard: all operators of a [`Flow`] can be had in this way.
    #[must_use]
    pub fn on_each<U: Send + 'static>(
        self,
        operators: impl Fn(Flow<T>, &Shard<S>) -> Flow<U> + Send + Sync + 'static,
    ) -> ParFlow<U, S> {
        let operators = Arc::new(operators);
        let plans = self.plans.into_iter().map(|Plan { shard, state, make }| {
            let operators = Arc::clone(&operators);
            let make: Make<U, S> = Arc::new(move |shard| operators(make(shard), shard));
            Plan { shard, state, make }
        });
        ParFlow {
            plans: plans.collect(),
            executor: self.executor,
            around: self.around,
            on_failure: self.on_failure,
        }
    }

    /// What `function` makes of each item. Each shard has a copy of the function.
    #[must_use]
    pub fn for_each<U: Send + 'static>(
        self,
        function: impl FnMut(T) -> U + Clone + Send + Sync + 'static,
    ) -> ParFlow<U, S> {
        self.on_each(move |flow, _| flow.for_each(function.clone()))
    }

    /// What `function` makes of each item and the state of its shard.
    #[must_use]
    pub fn for_each_in<U: Send + 'static>(
        self,
        function: impl FnMut(&mut S, T) -> U + Clone + Send + Sync + 'static,
    ) -> ParFlow<U, S> {
        self.on_each(move |flow, shard| {
            let (shard, mut function) = (shard.clone(), function.clone());
            flow.for_each(move |item| shard.with(|state| function(state, item)))
        })
    }

    /// The items for which `keep` holds.
    #[must_use]
    pub fn filter(self, keep: impl FnMut(&T) -> bool + Clone + Send + Sync + 'static) -> Self {
        self.on_each(move |flow, _| flow.filter(keep.clone()))
    }

    /// Lists of `size` items of a shard; its last may be shorter.
    #[must_use]
    pub fn batch(self, size: usize) -> ParFlow<Vec<T>, S> {
        self.on_each(move |flow, _| flow.batch(size))
    }

    /// All that `function` makes of each item, which may be nothing.
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
        self.on_each(move |flow, _| flow.combine(function.clone()))
    }

    /// The items of a shard in a random order, see [`Flow::shuffle`]; each shard has a random stream of its own.
    #[must_use]
    pub fn local_shuffle(self, buffer: usize, seed: u64) -> Self {
        self.on_each(move |flow, shard| flow.shuffle(buffer, seed.wrapping_add(u64::from(shard.source().0))))
    }

    /// Gives the operator that was added last a name in each shard, see [`Flow::named`].
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let name = name.to_owned();
        self.on_each(move |flow, _| flow.named(&name))
    }

    /// The shards of both, those of `other` behind these; each keeps what is done in it.
    #[must_use]
    pub fn union(mut self, other: ParFlow<T, S>) -> Self {
        self.plans.extend(other.plans);
        // What is not to be inside for some shards is inside for none.
        self.around = self.around.filter(|_| other.around.is_some());
        for (number, plan) in (0..).zip(&mut self.plans) {
            plan.shard.source = Source(number);
        }
        self
    }

    /// Keeps only the shards with these numbers, and ignores numbers of no shard.
    #[must_use]
    pub fn select_shards(mut self, numbers: &[u32]) -> Self {
        self.plans.retain(|plan| numbers.contains(&plan.shard.source.0));
        self
    }

    /// What happens when a shard fails; without this, the error is given on, and the shard goes on with its next item.
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Has threads of shards make what was asked for inside this function, as many items at once as there are to
    /// make: a lock that each of them needs, such as an interpreter's, is then taken once. A shard that waits, is
    /// made or ends is outside of it. Operators that follow [`repartition`](Self::repartition) are not inside.
    #[must_use]
    pub fn around(self, around: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        Self { around: Some(Arc::new(around)), ..self }
    }

    /// The shards, for messages to them.
    #[must_use]
    pub fn shards(&self) -> Vec<Shard<S>> {
        self.plans.iter().map(|plan| plan.shard.clone()).collect()
    }

    /// Number of shards.
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
    /// The items of each item.
    #[must_use]
    pub fn flatten(self) -> ParFlow<T, S> {
        self.on_each(|flow, _| flow.flatten())
    }
}

impl<T, S> fmt::Debug for ParFlow<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParFlow")
            .field("shards", &self.plans.len())
            .field("executor", &self.executor)
            .field("on_failure", &self.on_failure)
            .finish()
    }
}
