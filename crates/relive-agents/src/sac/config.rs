//! The settings of SAC.

use crate::continuous::{Body, Layers};
use crate::off_policy::{OffPolicy, off_policy};
use crate::settings::settings;

settings! {
    /// The settings of SAC (Haarnoja et al. 2018b), for actions that are one bounded float32 array. The defaults are
    /// taken from Stable-Baselines3.
    ///
    /// Deviations from the paper: all gradients of a batch use the parameters before the step, as in Acme; the
    /// temperature is learned through its logarithm, as in most implementations.
    ///
    /// With more `critics`, only some of which determine a target, the agent is REDQ (Chen et al. 2021).
    /// `samples_per_insert` sets the number of gradient steps per transition. Each gradient step also updates the
    /// policy.
    pub struct SacConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// How many times each transition is sampled, on average; a value equal to `batch_size` gives one gradient step
        /// per environment step.
        pub samples_per_insert: f64 = 256.0,
        /// The number of steps that a transition spans.
        pub n_step: usize = 1,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The number of transitions in the table before learning starts.
        pub min_replay_size: usize = 100,
        /// The capacity of the replay table, in transitions.
        pub max_replay_size: u64 = 1_000_000,
        /// The number of environments, divided among the actors; at least one for each actor. An actor acts in all of its
        /// environments at once.
        pub num_envs: usize = 1,
        /// The step size of Adam, for policy, critics and temperature.
        pub learning_rate: f32 = 3e-4,
        /// The fraction by which the target critics move toward the critics after each batch, τ.
        pub tau: f32 = 0.005,
        /// The initial temperature, α.
        pub initial_temperature: f32 = 1.0,
        /// The target entropy for the temperature; by default, the negative of the number of dimensions of an action.
        pub target_entropy: Option<f32> = None,
        /// The sizes of the hidden layers of each network.
        pub hidden: Vec<usize> = vec![256, 256],
        /// The number of critics.
        pub critics: usize = 2,
        /// The number of critics whose lowest value is the target. If it is less than `critics`, they are drawn at
        /// random for each batch, and the policy ascends the mean of all critics.
        pub critics_of_target: usize = 2,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// The autocorrelation of the exploration noise over time; 0 for independent noise at each step.
        pub noise_correlation: f32 = 0.0,
    }
}

impl SacConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> SacConfig {
        match name {
            "Pendulum-v1" => SacConfig { learning_rate: 1e-3, discount: 0.95, ..SacConfig::default() },
            // Independent noise at every step hardly moves a cart or a car.
            "control/cartpole-swingup" => SacConfig {
                batch_size: 128,
                samples_per_insert: 128.0,
                hidden: vec![128, 128],
                noise_correlation: 0.9,
                ..SacConfig::default()
            },
            // Until the agent reaches the goal for the first time, it learns to stand still.
            "MountainCarContinuous-v0" => SacConfig {
                min_replay_size: 5_000,
                batch_size: 128,
                samples_per_insert: 64.0,
                hidden: vec![64, 64],
                noise_correlation: 0.97,
                ..SacConfig::default()
            },
            _ => SacConfig::default(),
        }
    }

    /// Returns the architecture of the agent's networks.
    pub(super) fn layers(&self) -> Layers<'_> {
        Layers { body: Body::Relu, hidden: &self.hidden }
    }

    /// Returns the settings of the replay table and of the adders that fill it.
    pub(super) fn off_policy(&self) -> OffPolicy {
        off_policy!(self)
    }
}
