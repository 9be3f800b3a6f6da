//! The table of offline agents.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, Progress, SampleBatch, for_recorded_data};
use relive_rl::{Result, RlError};
use relive_table::{MAX_TABLE_SIZE, TableConfig};

use crate::continuous::{Improve, TransitionLearner};
use crate::off_policy::{OffPolicy, TABLE};

/// The settings for learning from recorded data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) batch_size: usize,
    pub(crate) discount: f32,
}

impl Recorded {
    /// Converts to the settings of agents that act.
    pub(crate) fn off_policy(self) -> OffPolicy {
        OffPolicy {
            batch_size: self.batch_size,
            samples_per_insert: 1.0,
            n_step: 1,
            discount: self.discount,
            min_replay_size: 1,
            max_replay_size: MAX_TABLE_SIZE,
            shards: 1,
            environments: 1,
        }
    }

    /// Checks that all settings are within their ranges.
    pub(crate) fn validate(self) -> Result<()> {
        self.off_policy().validate()
    }

    /// Returns the table, which is sampled uniformly and without limit as soon as it contains an item.
    pub(crate) fn table(self) -> Result<TableConfig> {
        for_recorded_data(TableConfig::new(TABLE))
    }

    /// Returns batches of the run's recorded episodes, which are written to the table. Without recorded episodes, other
    /// clients must fill the table.
    ///
    /// # Errors
    /// The run has steps in the environment.
    pub(crate) fn batches(self, crew: &Crew) -> Result<Flow<Vec<SampleBatch>>> {
        let off_policy = self.off_policy();
        if let Some(folder) = crew.data() {
            let mut adder = off_policy.transitions(crew)(crew.client(), TABLE)?;
            crew.fill(TABLE, &mut adder, || crew.recorded(folder))?;
        } else if crew.env_steps() > 0 {
            let expected = "0 for an agent that does not act; give it data and learner_steps instead";
            return Err(RlError::setting("env_steps", crew.env_steps(), expected));
        }
        off_policy.batches(crew)
    }

    /// Returns the plan, which only learns.
    pub(crate) fn plan<I: Improve + 'static>(
        self,
        crew: &Crew,
        normalizes: bool,
        improve: I,
    ) -> Result<Flow<Progress>> {
        let learner = crew.learner(TransitionLearner::new(crew, self.discount, normalizes, improve)?)?;
        Ok(self.batches(crew)?.learn(learner))
    }
}
