//! The plan.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, Progress, UpdatePriorities};
use relive_rl::{Agent, Policy, PolicyContext, Result, settings_of};
use relive_table::{SelectorKind, TableConfig};

use super::DqnConfig;
use super::learner::DqnLearner;
use super::policy::DqnPolicy;

impl Agent for DqnConfig {
    fn name(&self) -> &'static str {
        "dqn"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        DqnConfig::validate(self)
    }

    fn environments(&self, workers: usize) -> usize {
        self.num_envs.max(workers)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        let sampler = SelectorKind::Prioritized { exponent: self.priority_exponent };
        let own = self.off_policy().table()?.sampler(sampler);
        self.off_policy().tables(&own, &self.demonstrations)
    }

    fn steps_per_item(&self) -> Option<usize> {
        Some(1)
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(DqnPolicy::new(self, context)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (learner, off_policy) = (crew.learner(DqnLearner::new(self, crew)?)?, self.off_policy());
        off_policy.show(crew, &self.demonstrations, off_policy.transitions(crew))?;
        let batches = off_policy.mixed(crew, &self.demonstrations)?;
        let own = off_policy.own(&self.demonstrations);
        off_policy.plan(crew, batches.learn(learner).update_priorities_in(crew, own))
    }
}
