//! The settings of SAC.

use serde::{Deserialize, Serialize};

use crate::continuous::{Body, Layers};
use crate::off_policy::OffPolicy;

/// The settings of SAC (Haarnoja et al. 2018b), for actions that are one bounded float32 array. The defaults are taken
/// from Stable-Baselines3.
///
/// Deviations from the paper: all gradients of a batch use the parameters before the step, as in Acme; the temperature
/// is learned through its logarithm, as in most implementations.
///
/// With more `critics`, only some of which determine a target, the agent is REDQ (Chen et al. 2021).
/// `samples_per_insert` sets the number of gradient steps per transition. Each gradient step also updates the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SacConfig {
    /// The number of transitions in a batch.
    pub batch_size: usize,
    /// How many times each transition is sampled, on average; a value equal to `batch_size` gives one gradient step per
    /// environment step.
    pub samples_per_insert: f64,
    /// The number of steps that a transition spans.
    pub n_step: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// The number of transitions in the table before learning starts.
    pub min_replay_size: usize,
    /// The capacity of the replay table, in transitions.
    pub max_replay_size: u64,
    /// The step size of Adam, for policy, critics and temperature.
    pub learning_rate: f32,
    /// The fraction by which the target critics move toward the critics after each batch, τ.
    pub tau: f32,
    /// The initial temperature, α.
    pub initial_temperature: f32,
    /// The target entropy for the temperature; by default, the negative of the number of dimensions of an action.
    pub target_entropy: Option<f32>,
    /// The sizes of the hidden layers of each network.
    pub hidden: Vec<usize>,
    /// The number of critics.
    pub critics: usize,
    /// The number of critics whose lowest value is the target. If it is less than `critics`, they are drawn at random
    /// for each batch, and the policy ascends the mean of all critics.
    pub critics_of_target: usize,
    /// Whether observations are normalized to mean 0 and standard deviation 1.
    pub normalize_observations: bool,
    /// The autocorrelation of the exploration noise over time; 0 for independent noise at each step.
    pub noise_correlation: f32,
}

impl Default for SacConfig {
    fn default() -> Self {
        Self {
            batch_size: 256,
            samples_per_insert: 256.0,
            n_step: 1,
            discount: 0.99,
            min_replay_size: 100,
            max_replay_size: 1_000_000,
            learning_rate: 3e-4,
            tau: 0.005,
            initial_temperature: 1.0,
            target_entropy: None,
            hidden: vec![256, 256],
            critics: 2,
            critics_of_target: 2,
            normalize_observations: false,
            noise_correlation: 0.0,
        }
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
        OffPolicy {
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            n_step: self.n_step,
            discount: self.discount,
            min_replay_size: self.min_replay_size,
            max_replay_size: self.max_replay_size,
            shards: 1,
        }
    }
}
