//! MPO.

use crate::settings::settings;

settings! {
    /// The settings of MPO (Abdolmaleki et al. 2018, both papers), for actions that are one bounded float32 array. The
    /// defaults are taken from Acme's agent.
    ///
    /// In the next states, actions of the target policy are weighted by softmax(q̄/η). The policy is fitted to them
    /// through two distributions, one with its means and one with its standard deviations, each within a bound on its
    /// KL divergence from the target policy. η and the multipliers are learned dual variables. A second set of weights
    /// penalizes actions outside −1..1. The critic learns with ½(q(s, a) − (r + γ·mean q̄(s′, aᵢ)))² over `n_step`
    /// steps, where the papers use Retrace. As in Acme, the policy is not squashed; actions are clipped instead.
    /// Targets are copied after a step, and all gradients of a batch use the parameters before the step.
    pub struct MpoConfig {
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

impl MpoConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> MpoConfig {
        match name {
            "Pendulum-v1" => MpoConfig {
                batch_size: 128,
                samples_per_insert: 128.0,
                n_step: 3,
                discount: 0.95,
                epsilon_mean: 1e-2,
                epsilon_stddev: 1e-4,
                policy_learning_rate: 1e-3,
                critic_learning_rate: 1e-3,
                target_policy_period: 25,
                hidden: vec![64, 64],
                critic_hidden: vec![64, 64],
                ..MpoConfig::default()
            },
            // Independent noise at every step hardly moves a cart or a car.
            "control/cartpole-swingup" => MpoConfig {
                batch_size: 128,
                samples_per_insert: 64.0,
                policy_learning_rate: 3e-4,
                critic_learning_rate: 3e-4,
                target_policy_period: 25,
                noise_correlation: 0.9,
                hidden: vec![128, 128],
                critic_hidden: vec![128, 128],
                ..MpoConfig::default()
            },
            "MountainCarContinuous-v0" => MpoConfig {
                batch_size: 128,
                policy_learning_rate: 1e-3,
                critic_learning_rate: 1e-3,
                target_policy_period: 25,
                noise_correlation: 0.97,
                hidden: vec![64, 64],
                critic_hidden: vec![64, 64],
                ..MpoConfig::default()
            },
            _ => MpoConfig::default(),
        }
    }
}
