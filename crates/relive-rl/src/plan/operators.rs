//! Operators of reinforcement learning over flows.

use relive_flow::{Flow, ParFlow};

use super::{Learner, Progress, Rollout, RolloutWorker, SharedLearner};
use crate::Result;

/// Rollouts of all workers.
pub trait Rollouts {
    /// A rollout of each worker, side by side, all made by the same weights: no worker begins another one before this was learned from.
    fn sync(self) -> Flow<Rollout>;
}

impl Rollouts for ParFlow<Rollout, Result<RolloutWorker>> {
    fn sync(self) -> Flow<Rollout> {
        self.batch_across_shards().try_for_each(Rollout::side_by_side)
    }
}

/// Learning from rollouts.
pub trait LearnRollouts {
    /// Learns from each rollout, once or as often as the learner does, and publishes the weights.
    fn learn<L: Learner<Batch = Rollout> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress>;
}

impl LearnRollouts for Flow<Rollout> {
    fn learn<L: Learner<Batch = Rollout> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress> {
        self.try_for_each(move |mut rollout| {
            let acted = std::mem::take(&mut rollout.acted);
            learner.learn(rollout).map(|learnt| Progress { acted, learnt: Some(learnt) })
        })
    }
}
