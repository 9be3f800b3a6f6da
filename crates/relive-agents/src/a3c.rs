//! Asynchronous advantage actor-critic.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Progress};
use relive_rl::{Agent, Policy, Result, Seat, settings_of};
use serde::{Deserialize, Serialize};

use crate::A2cConfig;
use crate::actor_critic::{ActorCriticPolicy, Settings, asynchronous};

/// The settings of A3C (Mnih et al. 2016): each worker computes the gradient of its own rollout, which is applied as it comes. The defaults are those
/// of [`A2cConfig`], of which each worker is one. With no actors A3C learns as A2C does.
///
/// Deviations from the paper: workers have several environments, networks for policy and value are separate, initial weights orthogonal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct A3cConfig {
    /// Environments of each worker.
    pub num_envs: usize,
    /// Steps of a rollout in each environment.
    pub num_steps: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// λ of the advantages; 1 for those of the paper.
    pub gae_lambda: f32,
    /// Step size of RMSProp.
    pub learning_rate: f32,
    /// Whether the step size falls to 0 over the run.
    pub anneal: bool,
    /// How much the squared error of values counts.
    pub value_cost: f32,
    /// How much the entropy of the policy counts.
    pub entropy_cost: f32,
    /// Bound on the gradient's norm.
    pub max_gradient_norm: f32,
    /// Sizes of the hidden layers of each network.
    pub hidden: Vec<usize>,
}

impl Default for A3cConfig {
    fn default() -> Self {
        Self {
            num_envs: 8,
            num_steps: 5,
            discount: 0.99,
            gae_lambda: 1.0,
            learning_rate: 7e-4,
            anneal: false,
            value_cost: 0.5,
            entropy_cost: 0.0,
            max_gradient_norm: 0.5,
            hidden: vec![64, 64],
        }
    }
}

impl A3cConfig {
    /// Settings for an environment by its name: the defaults, whatever it is.
    #[must_use]
    pub fn for_environment(_name: &str) -> A3cConfig {
        A3cConfig::default()
    }

    fn shared(&self) -> Settings {
        let of_each = A2cConfig {
            num_envs: self.num_envs,
            num_steps: self.num_steps,
            discount: self.discount,
            gae_lambda: self.gae_lambda,
            learning_rate: self.learning_rate,
            anneal: self.anneal,
            value_cost: self.value_cost,
            entropy_cost: self.entropy_cost,
            max_gradient_norm: self.max_gradient_norm,
            normalize_observations: false,
            normalize_rewards: false,
            hidden: self.hidden.clone(),
        };
        of_each.shared()
    }
}

impl Agent for A3cConfig {
    fn name(&self) -> &'static str {
        "a3c"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.shared().validate()
    }

    fn environments(&self, workers: usize) -> usize {
        workers.saturating_mul(self.num_envs)
    }

    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(ActorCriticPolicy::new(&self.shared(), seat)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        asynchronous(&self.shared(), crew)
    }
}
