//! The plan.

use relive_flow::{Flow, Order, Weight};
use relive_rl::adders::TransitionAdder;
use relive_rl::plan::{Crew, Learn, Progress, ReplayTable, UpdatePriorities};
use relive_rl::{Agent, Policy, Result, Seat, settings_of};
use relive_table::{SelectorKind, TableConfig};

use super::DqnConfig;
use super::learner::DqnLearner;
use super::policy::DqnPolicy;

/// The table that transitions are in.
const TABLE: &str = "replay";

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

    fn tables(&self) -> Result<Vec<TableConfig>> {
        let rules = ReplayTable {
            name: TABLE,
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            min_size: self.min_replay_size,
            max_size: self.max_replay_size,
            burst: self.n_step,
        };
        let sampler = SelectorKind::Prioritized { exponent: self.priority_exponent };
        Ok(vec![rules.config()?.sampler(sampler)])
    }

    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(DqnPolicy::new(self, seat)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learner = crew.learner(DqnLearner::new(self, crew)?)?;
        let (spec, n_step, discount) = (crew.spec().clone(), self.n_step, self.discount);
        let adder = move |client: &_| TransitionAdder::new(client, TABLE, &spec, n_step, discount);
        let acting = crew.store(crew.rollouts(1)?, adder).acting()?;
        let learning = crew.replay(TABLE, self.batch_size)?.learn(learner).update_priorities(crew, TABLE);
        Ok(Flow::union([learning, acting], Order::weighted([Weight::All, Weight::UpTo(1)])))
    }
}
