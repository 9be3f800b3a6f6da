//! The plan of MPO and DMPO.

use relive_flow::Flow;
use relive_rl::Result;
use relive_rl::plan::{Crew, Learn, Progress};

use super::learner::MpoStep;
use super::settings::Settings;
use crate::continuous::TransitionLearner;

impl Settings {
    /// The plan: act into the table, learn from it.
    pub(super) fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (step, discount) =
            (MpoStep::new(self, crew.spec(), crew.learner_key())?, self.off_policy.discount);
        let learner = TransitionLearner::new(crew, discount, self.normalize_observations, step)?;
        let learning = self.off_policy.batches(crew)?.learn(crew.learner(learner)?);
        self.off_policy.plan(crew, learning)
    }
}
