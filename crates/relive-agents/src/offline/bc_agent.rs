//! Behavioral cloning as an agent.

use relive_flow::Flow;
use relive_nn::{Key, Network, Params, Scratch};
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{ActStep, Agent, Features, Policy, PolicyContext, Result, Saveable, Weights, settings_of};
use relive_table::TableConfig;

use super::bc::BcConfig;
use super::imitation::{ChoiceLearner, NumbersStep, logits};
use super::regression::head;
use crate::EpsilonGreedy;
use crate::actions::Discrete;
use crate::continuous::{ContinuousPolicy, Drawing, Role};
use crate::settings::{layers, positive};
use crate::weights;

impl Agent for BcConfig {
    fn name(&self) -> &'static str {
        "bc"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.recorded().validate()?;
        layers(&self.hidden)?;
        positive("learning_rate", self.learning_rate)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.recorded().table()?])
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        if Discrete::of(context.spec).is_some() {
            return Ok(Box::new(ChoicePolicy::new(self, context)?));
        }
        let drawing = |dimensions| Drawing::Normal(head(dimensions));
        let exploration = (self.normalize_observations, 0.0);
        ContinuousPolicy::create(context, self.layers(), (2, Role::Linear), drawing, exploration)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (spec, key) = (crew.spec(), crew.learner_key());
        if Discrete::of(spec).is_some() {
            let learner = crew.learner(ChoiceLearner::new(self, spec, key)?)?;
            return Ok(self.recorded().batches(crew)?.learn(learner));
        }
        self.recorded().plan(crew, self.normalize_observations, NumbersStep::new(self, spec, key)?)
    }
}

/// Chooses the action with the greatest logit.
#[derive(Debug)]
struct ChoicePolicy {
    features: Features,
    network: Network,
    params: Params,
    choice: EpsilonGreedy,
    rows: Vec<f32>,
    scratch: Scratch,
}

impl ChoicePolicy {
    fn new(config: &BcConfig, context: &PolicyContext<'_>) -> Result<ChoicePolicy> {
        let (features, _, network, params) = logits(config, context.spec, Key::from_seed(0))?;
        let (choice, rows) = (EpsilonGreedy::new(0.0, context)?, Vec::new());
        Ok(ChoicePolicy { features, network, params, choice, rows, scratch: Scratch::default() })
    }
}

impl Policy for ChoicePolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { features, network, params, choice, rows, scratch } = self;
        features.write_rows(step.observations, rows);
        choice.act(network.infer_each(params, rows, scratch), step.actions)
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }
}

impl Saveable for ChoicePolicy {
    fn save(&mut self) -> Vec<u8> {
        self.choice.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.choice.restore(bytes)
    }
}
