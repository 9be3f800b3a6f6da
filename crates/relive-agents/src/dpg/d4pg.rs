//! D4PG.

use super::settings::{PolicyRule, Settings};
use crate::continuous::{TargetUpdate, categorical};
use crate::off_policy::off_policy;
use crate::settings::{distribution, settings};
use crate::shared_agent::shared_agent;

settings! {
    /// The settings of D4PG (Barth-Maron et al. 2018), for actions that are one bounded float32 array. The defaults are
    /// taken from Acme's agent.
    ///
    /// D4PG is [DDPG](crate::DdpgConfig) with a critic that outputs the distribution of returns over `atoms`. The
    /// critic learns with the cross entropy to the projection of r + γ·Z̄(s′, π̄(s′)); the policy ascends the mean. As
    /// in Acme but unlike in the paper, replay is not prioritized. The other deviations from the paper are the same as
    /// for DDPG.
    pub struct D4pgConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// How many times each transition is sampled, on average.
        pub samples_per_insert: f64 = 32.0,
        /// The number of steps that a transition spans.
        pub n_step: usize = 5,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The number of transitions in the table before learning starts.
        pub min_replay_size: usize = 1_000,
        /// The capacity of the replay table, in transitions.
        pub max_replay_size: u64 = 1_000_000,
        /// The number of environments, divided among the actors; at least one for each actor. An actor acts in all of its
        /// environments at once.
        pub num_envs: usize = 1,
        /// The step size of Adam for the policy.
        pub policy_learning_rate: f32 = 1e-4,
        /// The step size of Adam for the critic.
        pub critic_learning_rate: f32 = 1e-4,
        /// The number of learner steps between copies to the target networks.
        pub target_update_period: u64 = 100,
        /// The number of atoms of the distribution of returns.
        pub atoms: usize = 51,
        /// The values of the lowest and the highest atom.
        pub value_range: [f32; 2] = [-150.0, 150.0],
        /// The standard deviation of the exploration noise, for actions scaled to −1..1.
        pub noise: f32 = 0.3,
        /// The autocorrelation of the exploration noise over time; 0 for independent noise at each step.
        pub noise_correlation: f32 = 0.0,
        /// The bound on the norm of ∂Q/∂a for each sample.
        pub max_action_gradient: Option<f32> = Some(1.0),
        /// The bound on the norm of the policy's gradient and, separately, on the norm of the critic's gradient.
        pub max_gradient_norm: Option<f32> = Some(40.0),
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// The sizes of the hidden layers of the policy.
        pub hidden: Vec<usize> = vec![256, 256, 256],
        /// The sizes of the hidden layers of the critic.
        pub critic_hidden: Vec<usize> = vec![512, 512, 256],
    }
}

impl D4pgConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> D4pgConfig {
        match name {
            "Pendulum-v1" => D4pgConfig {
                batch_size: 128,
                samples_per_insert: 128.0,
                n_step: 1,
                discount: 0.95,
                policy_learning_rate: 3e-4,
                critic_learning_rate: 1e-3,
                value_range: [-330.0, 0.0],
                hidden: vec![64, 64],
                critic_hidden: vec![128, 128],
                ..D4pgConfig::default()
            },
            // With steps of 10 ms, noise that is independent at every step hardly moves the cart.
            "control/cartpole-swingup" => D4pgConfig {
                batch_size: 128,
                samples_per_insert: 64.0,
                policy_learning_rate: 3e-4,
                critic_learning_rate: 3e-4,
                value_range: [0.0, 100.0],
                noise: 0.5,
                noise_correlation: 0.9,
                hidden: vec![128, 128],
                critic_hidden: vec![128, 128],
                ..D4pgConfig::default()
            },
            _ => D4pgConfig::default(),
        }
    }

    fn shared(&self) -> Settings {
        Settings {
            off_policy: off_policy!(self),
            policy_learning_rate: self.policy_learning_rate,
            critic_learning_rate: self.critic_learning_rate,
            critics: 1,
            returns: categorical(self.value_range, self.atoms),
            target_update: TargetUpdate::Copy { period: self.target_update_period },
            policy: PolicyRule::ACME,
            max_action_gradient: self.max_action_gradient,
            max_gradient_norm: self.max_gradient_norm,
            noise: self.noise,
            noise_correlation: self.noise_correlation,
            normalize_observations: self.normalize_observations,
            hidden: self.hidden.clone(),
            critic_hidden: self.critic_hidden.clone(),
        }
    }
}

shared_agent!(D4pgConfig, "d4pg", |config: &D4pgConfig| distribution(config.value_range, config.atoms));
