//! DDPG.

use serde::{Deserialize, Serialize};

use super::settings::{PolicyRule, Settings};
use crate::continuous::{Returns, TargetUpdate};
use crate::off_policy::OffPolicy;
use crate::shared_agent::shared_agent;

/// The settings of DDPG (Lillicrap et al. 2016), for actions that are one bounded float32 array. The defaults are taken
/// from Acme's agent.
///
/// The critic learns with ½(q(s, a) − (r + γ·q̄(s′, π̄(s′))))² over `n_step` steps; the policy ascends q. Deviations
/// from the paper, as in Acme: target networks are copies instead of moving averages; the policy ascends q at the next
/// observations; ∂q/∂a is bounded for each sample; noise is not correlated unless requested; and workers act with the
/// target policy. As in Acme's newer agents, targets are copied after a step, and all gradients of a batch use the
/// parameters before the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DdpgConfig {
    /// The number of transitions in a batch.
    pub batch_size: usize,
    /// How many times each transition is sampled, on average.
    pub samples_per_insert: f64,
    /// The number of steps that a transition spans.
    pub n_step: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// The number of transitions in the table before learning starts.
    pub min_replay_size: usize,
    /// The capacity of the replay table, in transitions.
    pub max_replay_size: u64,
    /// The step size of Adam for the policy.
    pub policy_learning_rate: f32,
    /// The step size of Adam for the critic.
    pub critic_learning_rate: f32,
    /// The number of learner steps between copies to the target networks.
    pub target_update_period: u64,
    /// The standard deviation of the exploration noise, for actions scaled to −1..1.
    pub noise: f32,
    /// The autocorrelation of the exploration noise over time; 0 for independent noise at each step.
    pub noise_correlation: f32,
    /// The bound on the norm of ∂Q/∂a for each sample.
    pub max_action_gradient: Option<f32>,
    /// The bound on the norm of the policy's gradient and, separately, on the norm of the critic's gradient.
    pub max_gradient_norm: Option<f32>,
    /// Whether observations are normalized to mean 0 and standard deviation 1.
    pub normalize_observations: bool,
    /// The sizes of the hidden layers of the policy.
    pub hidden: Vec<usize>,
    /// The sizes of the hidden layers of the critic.
    pub critic_hidden: Vec<usize>,
}

impl Default for DdpgConfig {
    fn default() -> Self {
        Self {
            batch_size: 256,
            samples_per_insert: 32.0,
            n_step: 5,
            discount: 0.99,
            min_replay_size: 1_000,
            max_replay_size: 1_000_000,
            policy_learning_rate: 1e-4,
            critic_learning_rate: 1e-4,
            target_update_period: 100,
            noise: 0.3,
            noise_correlation: 0.0,
            max_action_gradient: Some(1.0),
            max_gradient_norm: Some(40.0),
            normalize_observations: false,
            hidden: vec![256, 256, 256],
            critic_hidden: vec![512, 512, 256],
        }
    }
}

impl DdpgConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> DdpgConfig {
        match name {
            "Pendulum-v1" => DdpgConfig {
                samples_per_insert: 256.0,
                n_step: 1,
                discount: 0.95,
                policy_learning_rate: 3e-4,
                critic_learning_rate: 1e-3,
                hidden: vec![64, 64],
                critic_hidden: vec![128, 128],
                ..DdpgConfig::default()
            },
            _ => DdpgConfig::default(),
        }
    }

    fn shared(&self) -> Settings {
        Settings {
            off_policy: OffPolicy {
                batch_size: self.batch_size,
                samples_per_insert: self.samples_per_insert,
                n_step: self.n_step,
                discount: self.discount,
                min_replay_size: self.min_replay_size,
                max_replay_size: self.max_replay_size,
                shards: 1,
            },
            policy_learning_rate: self.policy_learning_rate,
            critic_learning_rate: self.critic_learning_rate,
            critics: 1,
            returns: Returns::Value,
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

shared_agent!(DdpgConfig, "ddpg");
