//! What the workers of a run do, and how it comes together.

use relive_flow::{Async, Flow, ParFlow};

use super::Progress;
use crate::acting::RolloutWorker;
use crate::{Result, Rollout};

/// One stream in each worker of a run: rollouts, or what is made of them there. What is done here is done by the workers, side by side if the run
/// has several; [`sync`](Self::sync), [`acting`](Self::acting) and [`gather_async`](Self::gather_async) make one flow of them.
#[derive(Debug)]
pub struct Workers<T = Rollout> {
    flow: ParFlow<T, Result<RolloutWorker>>,
}

impl<T: Send + 'static> Workers<T> {
    pub(super) fn new(flow: ParFlow<T, Result<RolloutWorker>>) -> Workers<T> {
        Workers { flow }
    }

    /// Does the same with the stream of each worker, whose number it gets: all operators of a [`Flow`] can be had in this way.
    #[must_use]
    pub fn on_each<U: Send + 'static>(
        self,
        operators: impl Fn(Flow<T>, u32) -> Flow<U> + Send + Sync + 'static,
    ) -> Workers<U> {
        Workers { flow: self.flow.on_each(move |flow, shard| operators(flow, shard.number())) }
    }

    /// What the workers make, as it comes; each is up to `depth` items ahead.
    #[must_use]
    pub fn gather_async(self, ahead: Async) -> Flow<T> {
        self.flow.gather_async(ahead)
    }
}

impl Workers<Rollout> {
    /// A rollout of each worker, side by side, all made by the same weights: no worker begins another one before this was learned from.
    #[must_use]
    pub fn sync(self) -> Flow<Rollout> {
        self.flow.batch_across_shards().try_for_each(Rollout::side_by_side)
    }

    /// What workers have done, as it comes; the rollouts themselves are dropped, since they are in tables.
    #[must_use]
    pub fn acting(self) -> Flow<Progress> {
        let acted = self.on_each(|rollouts, _| rollouts.for_each(|rollout| rollout.acted));
        acted.gather_async(Async::default()).for_each(|acted| Progress { acted, learnt: None })
    }
}
