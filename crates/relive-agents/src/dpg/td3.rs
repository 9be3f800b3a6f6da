//! TD3.

use super::settings::{PolicyRule, Settings};
use crate::continuous::{Returns, TargetUpdate};
use crate::off_policy::off_policy;
use crate::settings::settings;
use crate::shared_agent::shared_agent;

settings! {
    /// The settings of TD3 (Fujimoto et al. 2018), for actions that are one bounded float32 array. The defaults are
    /// taken from Acme's agent.
    ///
    /// The target uses the lower value of two critics and adds noise to the next action; the policy ascends the value
    /// of the first critic and is updated less often. As in Acme but unlike in the paper, the first layer of each
    /// network is normalized, and the run does not start with random actions. Unlike in Acme, each transition has its
    /// own noise, and the critics' loss has a factor of ½.
    pub struct Td3Config {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// How many times each transition is sampled, on average.
        pub samples_per_insert: f64 = 256.0,
        /// The number of steps that a transition spans.
        pub n_step: usize = 1,
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
        pub policy_learning_rate: f32 = 3e-4,
        /// The step size of Adam for the critic.
        pub critic_learning_rate: f32 = 3e-4,
        /// The fraction by which the target networks move toward the online networks, τ.
        pub tau: f32 = 0.005,
        /// The number of critic updates per policy update.
        pub policy_period: u64 = 2,
        /// The standard deviation of the noise on the target policy's actions (target policy smoothing).
        pub target_noise: f32 = 0.2,
        /// The bound on the magnitude of that noise.
        pub target_noise_clip: f32 = 0.5,
        /// The standard deviation of the exploration noise, for actions scaled to −1..1.
        pub noise: f32 = 0.1,
        /// The autocorrelation of the exploration noise over time; 0 for independent noise at each step.
        pub noise_correlation: f32 = 0.0,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// The sizes of the hidden layers of the policy.
        pub hidden: Vec<usize> = vec![256, 256],
        /// The sizes of the hidden layers of the critic.
        pub critic_hidden: Vec<usize> = vec![256, 256],
    }
}

impl Td3Config {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> Td3Config {
        match name {
            "Pendulum-v1" => Td3Config {
                policy_learning_rate: 1e-3,
                critic_learning_rate: 1e-3,
                hidden: vec![64, 64],
                critic_hidden: vec![128, 128],
                ..Td3Config::default()
            },
            _ => Td3Config::default(),
        }
    }

    fn shared(&self) -> Settings {
        Settings {
            off_policy: off_policy!(self),
            policy_learning_rate: self.policy_learning_rate,
            critic_learning_rate: self.critic_learning_rate,
            critics: 2,
            returns: Returns::Value,
            target_update: TargetUpdate::Move { tau: self.tau },
            policy: PolicyRule {
                at_next: false,
                acts_by_target: false,
                period: self.policy_period,
                target_noise: [self.target_noise, self.target_noise_clip],
                beside_imitation: None,
            },
            max_action_gradient: None,
            max_gradient_norm: None,
            noise: self.noise,
            noise_correlation: self.noise_correlation,
            normalize_observations: self.normalize_observations,
            hidden: self.hidden.clone(),
            critic_hidden: self.critic_hidden.clone(),
        }
    }
}

shared_agent!(Td3Config, "td3");
