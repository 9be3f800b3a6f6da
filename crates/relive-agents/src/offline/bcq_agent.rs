//! BCQ as an agent, and its policy.

use relive_flow::Flow;
use relive_nn::{Key, Params, Scratch};
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{ActStep, Agent, Policy, PolicyContext, Result, Saveable, Weights, settings_of};
use relive_table::TableConfig;

use super::bcq::{BcqConfig, Networks, constrain};
use super::bcq_learner::BcqLearner;
use crate::EpsilonGreedy;
use crate::settings::{fraction, layers, positive};
use crate::weights;

impl Agent for BcqConfig {
    fn name(&self) -> &'static str {
        "bcq"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.recorded().validate()?;
        layers(&self.hidden)?;
        positive("learning_rate", self.learning_rate)?;
        fraction("tau", self.tau)?;
        fraction("threshold", self.threshold)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.recorded().table()?])
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let (networks, params) = Networks::of(self, context.spec, Key::from_seed(0))?;
        let choice = EpsilonGreedy::new(0.0, context)?;
        let (threshold, memory) = (self.threshold, Buffers::default());
        Ok(Box::new(BcqPolicy { networks, params, threshold, choice, memory }))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learner = crew.learner(BcqLearner::new(self, crew.spec(), crew.learner_key())?)?;
        Ok(self.recorded().batches(crew)?.learn(learner))
    }
}

/// Chooses the action with the greatest value among those that are likely enough.
#[derive(Debug)]
struct BcqPolicy {
    networks: Networks,
    params: Params,
    threshold: f32,
    choice: EpsilonGreedy,
    memory: Buffers,
}

#[derive(Debug, Default)]
struct Buffers {
    rows: Vec<f32>,
    values: Vec<f32>,
    scratch: [Scratch; 2],
}

impl Policy for BcqPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { networks, params, threshold, choice, memory } = self;
        let Buffers { rows, values, scratch: [of_values, of_imitation] } = memory;
        networks.features.write_rows(step.observations, rows);
        values.clear();
        values.extend_from_slice(networks.values.infer_each(params, &rows[..], of_values));
        let logits = networks.imitation.infer_each(params, &rows[..], of_imitation);
        constrain(values, logits, networks.actions.count, *threshold);
        choice.act(values, step.actions)
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }
}

impl Saveable for BcqPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.choice.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.choice.restore(bytes)
    }
}
