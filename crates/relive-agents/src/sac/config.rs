//! The settings of SAC.

use serde::{Deserialize, Serialize};

use crate::continuous::{Body, Plan};
use crate::off_policy::OffPolicy;

/// The settings of SAC (Haarnoja et al. 2018b), for one array of float32 between bounds. The defaults are those of
/// Stable-Baselines3.
///
/// Deviations from the paper: all gradients of a batch are made with the parameters before it, as in Acme; the
/// logarithm of the temperature is what is learned, as in most implementations.
///
/// With more `critics`, of which only some count for a target, it is REDQ (Chen et al. 2021); how many gradient steps
/// there are for each transition, `samples_per_insert` says. Each of them is one of the policy, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SacConfig {
    /// Transitions of a batch.
    pub batch_size: usize,
    /// How often each transition is learned from, on average; as `batch_size`, one gradient step for each step in the
    /// environment.
    pub samples_per_insert: f64,
    /// Steps of a transition.
    pub n_step: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// Transitions before learning begins.
    pub min_replay_size: usize,
    /// Transitions that are kept.
    pub max_replay_size: u64,
    /// Step size of Adam, for policy, critics and temperature.
    pub learning_rate: f32,
    /// How far the target critics move towards the critics with each batch, τ.
    pub tau: f32,
    /// The temperature to begin with, α.
    pub initial_temperature: f32,
    /// The entropy that the temperature is drawn to; minus the numbers of an action unless set.
    pub target_entropy: Option<f32>,
    /// Sizes of the hidden layers of each network.
    pub hidden: Vec<usize>,
    /// Critics.
    pub critics: usize,
    /// Critics of which the least value is a target: if these are not all, they are drawn for each batch, and the
    /// policy goes by the mean of all.
    pub critics_of_target: usize,
    /// Whether observations are shifted and scaled to mean 0 and standard deviation 1.
    pub normalize_observations: bool,
    /// How much of an action's noise is that of the action before; 0: all is new.
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
    /// Settings for an environment by its name: what is known to learn there fast, and otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> SacConfig {
        match name {
            "Pendulum-v1" => SacConfig { learning_rate: 1e-3, discount: 0.95, ..SacConfig::default() },
            // Noise that is new with every step hardly moves a cart or a car.
            "control/cartpole-swingup" => SacConfig {
                batch_size: 128,
                samples_per_insert: 128.0,
                hidden: vec![128, 128],
                noise_correlation: 0.9,
                ..SacConfig::default()
            },
            // What is learned before the goal was reached is to stand still.
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

    /// What its networks look like.
    pub(super) fn plan(&self) -> Plan<'_> {
        Plan { body: Body::Relu, hidden: &self.hidden }
    }

    /// Those of the replay table, and of how it is filled.
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
