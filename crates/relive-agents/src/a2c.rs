//! Advantage actor-critic.

use relive_nn::RmsProp;
use serde::{Deserialize, Serialize};

use crate::actor_critic::{Optimization, Settings};
use crate::shared_agent::shared_agent;

/// The settings of A2C, the synchronous form of A3C (Mnih et al. 2016): one gradient step per rollout. The defaults are
/// taken from Stable-Baselines3, with 8 environments.
///
/// Deviations from the paper: the policy and the value have separate networks, and initial weights are orthogonal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct A2cConfig {
    /// The number of environments of all workers together.
    pub num_envs: usize,
    /// The number of steps of a rollout in each environment.
    pub num_steps: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// λ of generalized advantage estimation; 1 as in the paper.
    pub gae_lambda: f32,
    /// The step size of RMSProp.
    pub learning_rate: f32,
    /// Whether the step size decays linearly to 0 over the run.
    pub anneal: bool,
    /// The weight of the value loss, the squared error.
    pub value_cost: f32,
    /// The weight of the policy's entropy.
    pub entropy_cost: f32,
    /// The bound on the gradient's norm.
    pub max_gradient_norm: f32,
    /// Whether observations are normalized to mean 0 and standard deviation 1.
    pub normalize_observations: bool,
    /// Whether rewards are scaled so that discounted returns have a standard deviation of 1.
    pub normalize_rewards: bool,
    /// The sizes of the hidden layers of each network.
    pub hidden: Vec<usize>,
}

impl Default for A2cConfig {
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
            normalize_observations: false,
            normalize_rewards: false,
            hidden: vec![64, 64],
        }
    }
}

impl A2cConfig {
    /// Returns the settings for a named environment. They are always the defaults.
    #[must_use]
    pub fn for_environment(_name: &str) -> A2cConfig {
        A2cConfig::default()
    }

    pub(crate) fn shared(&self) -> Settings {
        let rate = RmsProp { learning_rate: self.learning_rate, epsilon: 1e-5, ..RmsProp::default() };
        Settings {
            num_envs: self.num_envs,
            num_steps: self.num_steps,
            hidden: self.hidden.clone(),
            discount: self.discount,
            gae_lambda: self.gae_lambda,
            epochs: 1,
            minibatch_size: None,
            clip: None,
            value_cost: self.value_cost,
            entropy_cost: self.entropy_cost,
            max_gradient_norm: self.max_gradient_norm,
            optimization: Optimization::RmsProp(rate),
            anneal: self.anneal,
            normalize_advantages: false,
            normalize_observations: self.normalize_observations,
            normalize_rewards: self.normalize_rewards,
            target_kl: None,
        }
    }
}

shared_agent!(A2cConfig, "a2c", without_tables);
