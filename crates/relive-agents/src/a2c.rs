//! Advantage actor-critic.

use relive_nn::RmsProp;

use crate::actor_critic::{Optimization, Settings};
use crate::settings::settings;
use crate::shared_agent::shared_agent;

settings! {
    /// The settings of A2C, the synchronous form of A3C (Mnih et al. 2016): one gradient step per rollout. The defaults
    /// are taken from Stable-Baselines3, with 8 environments.
    ///
    /// Deviations from the paper: the policy and the value have separate networks, and initial weights are orthogonal.
    pub struct A2cConfig {
        /// The number of environments of all workers together.
        pub num_envs: usize = 8,
        /// The number of steps of a rollout in each environment.
        pub num_steps: usize = 5,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// λ of generalized advantage estimation; 1 as in the paper.
        pub gae_lambda: f32 = 1.0,
        /// The step size of RMSProp.
        pub learning_rate: f32 = 7e-4,
        /// Whether the step size decays linearly to 0 over the run.
        pub anneal: bool = false,
        /// The weight of the value loss, the squared error.
        pub value_cost: f32 = 0.5,
        /// The weight of the policy's entropy.
        pub entropy_cost: f32 = 0.0,
        /// The bound on the gradient's norm.
        pub max_gradient_norm: f32 = 0.5,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// Whether rewards are scaled so that discounted returns have a standard deviation of 1.
        pub normalize_rewards: bool = false,
        /// The sizes of the hidden layers of each network.
        pub hidden: Vec<usize> = vec![64, 64],
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
