//! IMPALA.

use relive_flow::Flow;
use relive_nn::Adam;
use relive_rl::plan::{Crew, Progress};
use relive_rl::{Agent, Policy, Result, Seat, settings_of};
use serde::{Deserialize, Serialize};

use super::plan::plan;
use super::policy::VTracePolicy;
use super::settings::Settings;
use crate::settings::bsuite_family;

/// The settings of IMPALA (Espeholt et al. 2018): workers run ahead, and V-trace corrects for it. The defaults are
/// those of Acme's agent for bsuite, with fragments of 20 steps.
///
/// Deviations from the paper: fragments go straight from workers to the learner, not through a queue, so that the lag
/// is bounded by one fragment a worker; Adam in the place of RMSProp, as in Acme.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImpalaConfig {
    /// Environments, all workers together.
    pub num_envs: usize,
    /// Steps of a fragment.
    pub sequence_length: usize,
    /// Fragments of one environment each that are learned from together.
    pub batch_size: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// λ of V-trace, by which traces are shortened; 1 for not at all.
    pub trace_decay: f32,
    /// How much the squared error of values counts.
    pub value_cost: f32,
    /// How much the entropy of the policy counts.
    pub entropy_cost: f32,
    /// Rewards are clipped to this on either side; not at all unless set.
    pub max_abs_reward: Option<f32>,
    /// Bound on the gradient's norm; none unless set.
    pub max_gradient_norm: Option<f32>,
    /// Step size of Adam.
    pub learning_rate: f32,
    /// ε of Adam.
    pub adam_epsilon: f32,
    /// Whether the step size falls to 0 over the run.
    pub anneal: bool,
    /// Sizes of the hidden layers.
    pub hidden: Vec<usize>,
    /// Units of the LSTM behind them; 0 for none.
    pub lstm_units: usize,
}

impl Default for ImpalaConfig {
    fn default() -> Self {
        Self {
            num_envs: 16,
            sequence_length: 20,
            batch_size: 16,
            discount: 0.99,
            trace_decay: 1.0,
            value_cost: 0.5,
            entropy_cost: 0.01,
            max_abs_reward: None,
            max_gradient_norm: None,
            learning_rate: 1e-3,
            adam_epsilon: 1e-8,
            anneal: false,
            hidden: vec![50, 50],
            lstm_units: 20,
        }
    }
}

impl ImpalaConfig {
    /// Settings for an environment by its name: what is known to learn there fast, and otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> ImpalaConfig {
        let Some(family) = bsuite_family(name) else { return ImpalaConfig::default() };
        // Few episodes must do, so that batches are small; large steps by small gradients undo what is known already.
        ImpalaConfig {
            num_envs: 2,
            batch_size: 2,
            sequence_length: if family == "catch" { 10 } else { 20 },
            learning_rate: 3e-3,
            adam_epsilon: 1e-4,
            anneal: true,
            max_gradient_norm: Some(1.0),
            lstm_units: 32,
            ..ImpalaConfig::default()
        }
    }

    fn shared(&self) -> Settings {
        Settings {
            num_envs: self.num_envs,
            sequence_length: self.sequence_length,
            batch_size: self.batch_size,
            epochs: 1,
            discount: self.discount,
            trace_decay: self.trace_decay,
            clip: None,
            value_cost: self.value_cost,
            entropy_cost: self.entropy_cost,
            max_abs_reward: self.max_abs_reward,
            max_gradient_norm: self.max_gradient_norm,
            adam: Adam { learning_rate: self.learning_rate, epsilon: self.adam_epsilon, ..Adam::default() },
            anneal: self.anneal,
            normalize_advantages: false,
            hidden: self.hidden.clone(),
            lstm_units: self.lstm_units,
        }
    }
}

impl Agent for ImpalaConfig {
    fn name(&self) -> &'static str {
        "impala"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.shared().validate()
    }

    fn environments(&self, workers: usize) -> usize {
        workers.max(self.num_envs)
    }

    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(VTracePolicy::new(&self.shared(), seat)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        plan(&self.shared(), crew)
    }
}
