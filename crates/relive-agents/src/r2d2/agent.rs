//! The plan.

use relive_flow::Flow;
use relive_rl::adders::{EndOfEpisode, SequenceAdder};
use relive_rl::plan::{Client, Crew, Learn, Progress, UpdatePriorities};
use relive_rl::{Agent, Policy, PolicyContext, Purpose, Result, settings_of};
use relive_table::{SelectorKind, TableConfig};

use super::R2d2Config;
use super::learner::R2d2Learner;
use super::policy::R2d2Policy;

/// The maximum number of sequences that one step may finish: a sequence that is due, and the last sequence of the
/// episode.
const SEQUENCES_OF_A_STEP: usize = 2;

impl Agent for R2d2Config {
    fn name(&self) -> &'static str {
        "r2d2"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        R2d2Config::validate(self)
    }

    fn environments(&self, workers: usize) -> usize {
        self.num_envs.max(workers)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        let sampler = SelectorKind::Prioritized { exponent: self.priority_exponent };
        let own = self.off_policy().table_for(SEQUENCES_OF_A_STEP)?.sampler(sampler);
        self.off_policy().tables(&own, &self.demonstrations)
    }

    fn steps_per_item(&self) -> Option<usize> {
        Some(self.replay_period)
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(R2d2Policy::new(self, context)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (learner, off_policy) = (crew.learner(R2d2Learner::new(self, crew)?)?, self.off_policy());
        let extras = self.policy(&PolicyContext::alone(crew.spec(), Purpose::Training, &[]))?.extras();
        let (spec, rows, period) = (crew.spec().clone(), self.rows(), self.replay_period);
        let adder = move |client: &Client, table| {
            let adder = SequenceAdder::new(client, table, &spec, Some(&extras), rows, period)?;
            Ok(adder.end_of_episode(EndOfEpisode::Truncate))
        };
        let shown = &self.demonstrations;
        off_policy.show(crew, shown, &adder)?;
        let learning = off_policy.mixed(crew, shown)?.learn(learner);
        let learning = learning.update_priorities_in(crew, off_policy.own(shown));
        off_policy.plan_with(crew, learning, adder)
    }
}
