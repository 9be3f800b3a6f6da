//! The settings of a DQN agent.

use serde::{Deserialize, Serialize};

use super::DqnLoss;
use crate::values::{Experience, check};
use crate::{Agent, Result};

/// The settings of a DQN agent. The defaults are those that Acme's agent has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DqnConfig {
    /// Transitions of a batch.
    pub batch_size: usize,
    /// How often each step is learned from, on average.
    pub samples_per_insert: f64,
    /// Steps of a transition.
    pub n_step: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// Steps before learning begins.
    pub min_replay_size: usize,
    /// Transitions that are kept.
    pub max_replay_size: u64,
    /// How much priorities count when transitions are sampled; 0: not at all.
    pub priority_exponent: f64,
    /// How much of the bias that this brings is taken back by weights, β.
    pub importance_exponent: f32,
    /// The share of actions that are taken at random.
    pub epsilon: f64,
    /// Step size of Adam.
    pub learning_rate: f32,
    /// Learner steps from one copy to the target network to the next.
    pub target_update_period: u64,
    /// Where the Huber loss turns from squares to lines.
    pub huber: f32,
    /// Returns over `n_step` are clipped to this on either side.
    pub max_abs_reward: f32,
    /// Bound on the gradient's norm; none unless set.
    pub max_gradient_norm: Option<f32>,
    /// Sizes of the hidden layers.
    pub hidden: Vec<usize>,
    /// Whether the network has a value and an advantage head.
    pub duelling: bool,
    /// What the network's outputs are, and what they are drawn to.
    pub loss: DqnLoss,
    /// Atoms of a categorical distribution, or quantiles.
    pub atoms: usize,
    /// The outermost atoms of a categorical distribution.
    pub value_range: [f32; 2],
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self {
            batch_size: 256,
            samples_per_insert: 32.0,
            n_step: 5,
            discount: 0.99,
            min_replay_size: 1_000,
            max_replay_size: 1_000_000,
            priority_exponent: 0.6,
            importance_exponent: 0.2,
            epsilon: 0.05,
            learning_rate: 1e-3,
            target_update_period: 100,
            huber: 1.0,
            max_abs_reward: 1.0,
            max_gradient_norm: None,
            hidden: vec![50, 50],
            duelling: false,
            loss: DqnLoss::DoubleQ,
            atoms: 51,
            value_range: [-10.0, 10.0],
        }
    }
}

impl DqnConfig {
    /// Whether all settings are within their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn validate(&self) -> Result<()> {
        Agent::validate(self)
    }

    /// Those beyond [`Experience`].
    pub(super) fn validate_own(&self) -> Result<()> {
        let positive = |name, value: f64| check(name, value, value > 0.0 && value.is_finite(), "above 0");
        let exponent = self.importance_exponent;
        check("importance_exponent", exponent, (0.0..=1.0).contains(&exponent), "from 0 to 1")?;
        positive("learning_rate", f64::from(self.learning_rate))?;
        positive("huber", f64::from(self.huber))?;
        positive("max_abs_reward", f64::from(self.max_abs_reward))?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", f64::from(norm)))?;
        let period = self.target_update_period;
        check("target_update_period", period, period >= 1, "at least 1")
    }

    /// How it acts, and what its replay is.
    #[must_use]
    pub fn experience(&self) -> Experience {
        Experience {
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            n_step: self.n_step,
            discount: self.discount,
            min_replay_size: self.min_replay_size,
            max_replay_size: self.max_replay_size,
            priority_exponent: self.priority_exponent,
            epsilon: self.epsilon,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be() {
        assert!(DqnConfig::default().validate().is_ok());
        assert!(DqnConfig::default().experience().table().is_ok());
        let (ours, general) = (DqnConfig::default().experience(), Experience::default());
        assert_eq!(ours, general);
    }

    #[test]
    fn settings_out_of_range_are_told() {
        type Change = fn(&mut DqnConfig);
        for (change, expected) in [
            ((|config| config.batch_size = 0) as Change, "batch_size is 0, but it must be at least 1"),
            (|config| config.epsilon = 1.5, "epsilon is 1.5, but it must be from 0 to 1"),
            (|config| config.learning_rate = f32::NAN, "learning_rate is NaN, but it must be above 0"),
            (
                |config| config.max_replay_size = 10,
                "max_replay_size is 10, but it must be at least min_replay_size",
            ),
        ] {
            let mut config = DqnConfig::default();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), expected);
        }
    }
}
