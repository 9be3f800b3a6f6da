//! DMPO.

use super::MpoConfig;
use super::settings::Settings;
use crate::continuous::categorical;
use crate::settings::{distribution, settings};
use crate::shared_agent::shared_agent;

settings! {
    /// The settings of DMPO (Hoffman et al. 2020, section 4), for actions that are one bounded float32 array. The
    /// defaults are taken from Acme's agent.
    ///
    /// DMPO is [MPO](crate::MpoConfig) with a critic that outputs the distribution of returns over `atoms`. The critic
    /// learns with the cross entropy to the projection of r + γ·Z, where Z is the mixture of the target critic's
    /// distributions for the sampled actions.
    pub struct DmpoConfig {
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
        /// The step size of Adam for the dual variables.
        pub dual_learning_rate: f32 = 1e-2,
        /// The number of learner steps between copies to the target policy, with which workers act.
        pub target_policy_period: u64 = 100,
        /// The number of learner steps between copies to the target critic.
        pub target_critic_period: u64 = 100,
        /// The number of atoms of the distribution of returns.
        pub atoms: usize = 51,
        /// The values of the lowest and the highest atom.
        pub value_range: [f32; 2] = [-150.0, 150.0],
        /// The number of actions sampled in each state.
        pub samples: usize = 20,
        /// The bound on the KL divergence between the weighted actions and the target policy.
        pub epsilon: f32 = 0.1,
        /// The bound on the corresponding divergence for the penalty on out-of-bounds actions.
        pub epsilon_penalty: f32 = 1e-3,
        /// The bound on the KL divergence of means, for each dimension of an action.
        pub epsilon_mean: f32 = 2.5e-3,
        /// The bound on the KL divergence of standard deviations.
        pub epsilon_stddev: f32 = 1e-6,
        /// The initial standard deviation of the policy, for actions scaled to −1..1.
        pub initial_stddev: f32 = 0.7,
        /// The bound on the norm of the policy's gradient and, separately, on the norm of the critic's gradient.
        pub max_gradient_norm: f32 = 40.0,
        /// The autocorrelation of the exploration noise over time; 0 for independent noise at each step.
        pub noise_correlation: f32 = 0.0,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// The sizes of the hidden layers of the policy.
        pub hidden: Vec<usize> = vec![256, 256, 256],
        /// The sizes of the hidden layers of the critic.
        pub critic_hidden: Vec<usize> = vec![512, 512, 256],
    }
}

impl DmpoConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> DmpoConfig {
        match name {
            "Pendulum-v1" => DmpoConfig {
                batch_size: 64,
                samples_per_insert: 64.0,
                policy_learning_rate: 1e-3,
                critic_learning_rate: 1e-3,
                target_policy_period: 25,
                hidden: vec![64, 64],
                critic_hidden: vec![128, 128],
                value_range: [-1_000.0, 0.0],
                ..DmpoConfig::default()
            },
            // Independent noise at every step hardly moves a cart or a car.
            "control/cartpole-swingup" => DmpoConfig {
                batch_size: 128,
                samples_per_insert: 64.0,
                policy_learning_rate: 3e-4,
                critic_learning_rate: 3e-4,
                target_policy_period: 25,
                noise_correlation: 0.9,
                hidden: vec![128, 128],
                critic_hidden: vec![128, 128],
                value_range: [0.0, 100.0],
                ..DmpoConfig::default()
            },
            "MountainCarContinuous-v0" => DmpoConfig {
                batch_size: 128,
                policy_learning_rate: 1e-3,
                critic_learning_rate: 1e-3,
                target_policy_period: 25,
                noise_correlation: 0.97,
                hidden: vec![64, 64],
                critic_hidden: vec![64, 64],
                value_range: [-20.0, 100.0],
                ..DmpoConfig::default()
            },
            _ => DmpoConfig::default(),
        }
    }

    fn shared(&self) -> Settings {
        let config = MpoConfig {
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            n_step: self.n_step,
            discount: self.discount,
            min_replay_size: self.min_replay_size,
            max_replay_size: self.max_replay_size,
            num_envs: self.num_envs,
            policy_learning_rate: self.policy_learning_rate,
            critic_learning_rate: self.critic_learning_rate,
            dual_learning_rate: self.dual_learning_rate,
            target_policy_period: self.target_policy_period,
            target_critic_period: self.target_critic_period,
            samples: self.samples,
            epsilon: self.epsilon,
            epsilon_penalty: self.epsilon_penalty,
            epsilon_mean: self.epsilon_mean,
            epsilon_stddev: self.epsilon_stddev,
            initial_stddev: self.initial_stddev,
            max_gradient_norm: self.max_gradient_norm,
            noise_correlation: self.noise_correlation,
            normalize_observations: self.normalize_observations,
            hidden: self.hidden.clone(),
            critic_hidden: self.critic_hidden.clone(),
        };
        Settings::new(config, categorical(self.value_range, self.atoms))
    }
}

shared_agent!(DmpoConfig, "dmpo", |config: &DmpoConfig| distribution(config.value_range, config.atoms));
