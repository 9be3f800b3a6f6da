//! Learning from batches, and what comes after it.

use relive_client::SampleBatch;
use relive_flow::Flow;

use super::{Crew, Progress, SharedLearner};
use crate::{Acted, Learner, RlError, Rollout};

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

/// A batch of each of several tables, for a learner of a mixture.
impl Batch for Vec<SampleBatch> {
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
        let learnt = self.try_for_each(move |mut batch| {
            let acted = batch.take_acted();
            learner.learn(batch).map(|learnt| Progress { acted, learnt: Some(learnt) })
        });
        learnt.named("learn")
    }
}

/// What comes after learning.
pub trait UpdatePriorities {
    /// Writes the priorities that the learner has found to a table of the run; an item that is gone by then is passed over.
    fn update_priorities(self, crew: &Crew, table: &'static str) -> Flow<Progress>;
}

impl UpdatePriorities for Flow<Progress> {
    fn update_priorities(self, crew: &Crew, table: &'static str) -> Flow<Progress> {
        let client = crew.client().clone();
        let updated = self.try_for_each(move |mut progress| {
            let priorities = progress.learnt.as_mut().map(|learnt| std::mem::take(&mut learnt.priorities));
            if let Some(priorities) = priorities.filter(|priorities| !priorities.is_empty()) {
                client.mutate_priorities(table, &priorities, &[])?;
            }
            Ok::<_, RlError>(progress)
        });
        updated.named(&format!("update_priorities({table})"))
    }
}
