//! The plan.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Agent, Policy, PolicyContext, Result, settings_of};
use relive_table::TableConfig;

use super::config::SacConfig;
use super::learner::SacStep;
use crate::continuous::{ContinuousPolicy, Drawing, Role, TransitionLearner};
use crate::settings::{check, correlation, fraction, layers, positive, whole};

/// The maximum number of critics; REDQ uses ten.
const MAX_CRITICS: usize = 100;

impl Agent for SacConfig {
    fn name(&self) -> &'static str {
        "sac"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.off_policy().validate()?;
        layers(&self.hidden)?;
        fraction("tau", self.tau)?;
        positive("learning_rate", self.learning_rate)?;
        positive("initial_temperature", self.initial_temperature)?;
        whole("critics_of_target", self.critics_of_target)?;
        check("critics", self.critics, (1..=MAX_CRITICS).contains(&self.critics), "from 1 to 100")?;
        let is_part = self.critics_of_target <= self.critics;
        check("critics_of_target", self.critics_of_target, is_part, "at most critics")?;
        correlation(self.noise_correlation)?;
        let entropy = self.target_entropy.unwrap_or(0.0);
        check("target_entropy", entropy, entropy.is_finite(), "a finite number")
    }

    fn environments(&self, workers: usize) -> usize {
        self.num_envs.max(workers)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.off_policy().table()?])
    }

    fn steps_per_item(&self) -> Option<usize> {
        Some(1)
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let exploration = (self.normalize_observations, self.noise_correlation);
        ContinuousPolicy::create(
            context,
            self.layers(),
            (2, Role::Linear),
            |_| Drawing::TanhNormal,
            exploration,
        )
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (step, off_policy) = (SacStep::new(self, crew.spec(), crew.learner_key())?, self.off_policy());
        let learner = TransitionLearner::new(crew, self.discount, self.normalize_observations, step)?;
        let learning = off_policy.batches(crew)?.learn(crew.learner(learner)?);
        off_policy.plan(crew, learning)
    }
}
