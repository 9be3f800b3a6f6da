//! Proximal policy optimization.

use relive_nn::Adam;

use crate::actor_critic::{Optimization, Settings};
use crate::settings::settings;
use crate::shared_agent::shared_agent;

settings! {
    /// The settings of PPO (Schulman et al. 2017). The defaults are taken from Stable-Baselines3, with the 2,048 steps
    /// of a rollout spread over 8 environments.
    ///
    /// Deviations from the paper, all of them common: generalized advantage estimation with normalization in each
    /// minibatch, separate networks for the policy and the value, orthogonal initial weights, and a bound on the
    /// gradient's norm. The statistics that normalize a rollout's observations come from earlier rollouts; other
    /// implementations update them at every step.
    pub struct PpoConfig {
        /// The number of environments of all workers together.
        pub num_envs: usize = 8,
        /// The number of steps of a rollout in each environment.
        pub num_steps: usize = 256,
        /// The number of steps in a minibatch.
        pub minibatch_size: usize = 64,
        /// The number of passes over each rollout.
        pub epochs: usize = 10,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// λ of generalized advantage estimation.
        pub gae_lambda: f32 = 0.95,
        /// The clip range ε of the ratio of the new to the old probability. Moving the ratio beyond 1 ± ε gains
        /// nothing.
        pub clip: f32 = 0.2,
        /// The step size of Adam.
        pub learning_rate: f32 = 3e-4,
        /// Whether the step size and the clip range decay to 0 over the run.
        pub anneal: bool = false,
        /// The weight of the value loss, the squared error.
        pub value_cost: f32 = 0.5,
        /// The weight of the policy's entropy.
        pub entropy_cost: f32 = 0.0,
        /// The bound on the gradient's norm.
        pub max_gradient_norm: f32 = 0.5,
        /// The target for the estimate of KL(old ‖ new): learning from a rollout stops at 1.5 times this value; no
        /// bound unless set.
        pub target_kl: Option<f32> = None,
        /// Whether the advantages of a minibatch are normalized to mean 0 and standard deviation 1.
        pub normalize_advantages: bool = true,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// Whether rewards are scaled so that discounted returns have a standard deviation of 1.
        pub normalize_rewards: bool = false,
        /// The sizes of the hidden layers of each network.
        pub hidden: Vec<usize> = vec![64, 64],
    }
}

impl PpoConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> PpoConfig {
        match name {
            "CartPole-v1" => PpoConfig {
                num_steps: 32,
                minibatch_size: 256,
                epochs: 7,
                discount: 0.98,
                gae_lambda: 0.8,
                learning_rate: 3e-3,
                anneal: true,
                ..PpoConfig::default()
            },
            "Pendulum-v1" => PpoConfig {
                num_steps: 128,
                discount: 0.9,
                learning_rate: 1e-3,
                normalize_observations: true,
                normalize_rewards: true,
                ..PpoConfig::default()
            },
            _ => PpoConfig::default(),
        }
    }

    fn shared(&self) -> Settings {
        Settings {
            num_envs: self.num_envs,
            num_steps: self.num_steps,
            hidden: self.hidden.clone(),
            discount: self.discount,
            gae_lambda: self.gae_lambda,
            epochs: self.epochs,
            minibatch_size: Some(self.minibatch_size),
            clip: Some(self.clip),
            value_cost: self.value_cost,
            entropy_cost: self.entropy_cost,
            max_gradient_norm: self.max_gradient_norm,
            optimization: Optimization::Adam(Adam {
                learning_rate: self.learning_rate,
                epsilon: 1e-5,
                ..Adam::default()
            }),
            anneal: self.anneal,
            normalize_advantages: self.normalize_advantages,
            normalize_observations: self.normalize_observations,
            normalize_rewards: self.normalize_rewards,
            target_kl: self.target_kl,
        }
    }
}

shared_agent!(PpoConfig, "ppo", without_tables);
