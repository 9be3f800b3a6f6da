//! The plan of these agents.

use relive_flow::Flow;
use relive_rl::Result;
use relive_rl::plan::{Crew, Learn, Progress, SharedLearner};

use super::learner::DpgStep;
use super::settings::Settings;
use crate::continuous::TransitionLearner;

impl Settings {
    /// The learner.
    pub(super) fn learner(&self, crew: &Crew) -> Result<SharedLearner<TransitionLearner<DpgStep>>> {
        let step = DpgStep::new(self, crew.spec(), crew.learner_key())?;
        let (discount, normalizes) = (self.off_policy.discount, self.normalize_observations);
        crew.learner(TransitionLearner::new(crew, discount, normalizes, step)?)
    }

    /// The plan: act into the table, learn from it.
    pub(super) fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learning = self.off_policy.batches(crew)?.learn(self.learner(crew)?);
        self.off_policy.plan(crew, learning)
    }
}
