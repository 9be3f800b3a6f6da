//! Operators of reinforcement learning over flows.

use relive_client::SampleBatch;
use relive_flow::{Async, Flow};

use super::{Acted, Learner, Progress, Rollout, SharedLearner, Workers};

/// Rollouts of all workers.
pub trait Rollouts {
    /// A rollout of each worker, side by side, all made by the same weights: no worker begins another one before this was learned from.
    fn sync(self) -> Flow<Rollout>;

    /// What workers have done, as it comes; the rollouts themselves are dropped, since they are in tables.
    fn acting(self) -> Flow<Progress>;
}

impl Rollouts for Workers {
    fn sync(self) -> Flow<Rollout> {
        self.batch_across_shards().try_for_each(Rollout::side_by_side)
    }

    fn acting(self) -> Flow<Progress> {
        let acted = self.for_each(|rollout| rollout.acted).gather_async(Async::default());
        acted.for_each(|acted| Progress { acted, learnt: None })
    }
}

/// What a learner is given.
pub trait Batch: 'static {
    /// What workers have done for it, if it comes straight from them.
    fn take_acted(&mut self) -> Vec<Acted>;
}

impl Batch for Rollout {
    fn take_acted(&mut self) -> Vec<Acted> {
        std::mem::take(&mut self.acted)
    }
}

impl Batch for SampleBatch {
    fn take_acted(&mut self) -> Vec<Acted> {
        Vec::new()
    }
}

/// Learning from batches.
pub trait Learn<B> {
    /// Learns from each batch, once or as often as the learner does, and publishes the weights.
    fn learn<L: Learner<Batch = B> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress>;
}

impl<B: Batch> Learn<B> for Flow<B> {
    fn learn<L: Learner<Batch = B> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress> {
        self.try_for_each(move |mut batch| {
            let acted = batch.take_acted();
            learner.learn(batch).map(|learnt| Progress { acted, learnt: Some(learnt) })
        })
    }
}
