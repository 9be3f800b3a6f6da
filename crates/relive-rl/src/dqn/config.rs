//! The settings of a DQN agent.

use relive_table::{ErrorBuffer, RateLimiterConfig, SelectorKind, TableConfig};
use serde::{Deserialize, Serialize};

use crate::{Result, RlError};

/// The table that DQN's transitions are in.
pub(crate) const TABLE: &str = "replay";

/// Samples per insert may differ from what is asked for by this share of what the smallest replay allows.
const RATIO_TOLERANCE: f64 = 0.1;

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
        }
    }
}

impl DqnConfig {
    /// Whether all settings are within their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn validate(&self) -> Result<()> {
        let share = |name, value: f64| check(name, value, (0.0..=1.0).contains(&value), "from 0 to 1");
        let positive = |name, value: f64| check(name, value, value > 0.0 && value.is_finite(), "above 0");
        let whole = |name, value: usize| check(name, value, value >= 1, "at least 1");
        whole("batch_size", self.batch_size)?;
        whole("n_step", self.n_step)?;
        whole("min_replay_size", self.min_replay_size)?;
        positive("samples_per_insert", self.samples_per_insert)?;
        share("discount", f64::from(self.discount))?;
        share("epsilon", self.epsilon)?;
        share("importance_exponent", f64::from(self.importance_exponent))?;
        positive("learning_rate", f64::from(self.learning_rate))?;
        positive("huber", f64::from(self.huber))?;
        positive("max_abs_reward", f64::from(self.max_abs_reward))?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", f64::from(norm)))?;
        check(
            "target_update_period",
            self.target_update_period,
            self.target_update_period >= 1,
            "at least 1",
        )?;
        let fits = u64::try_from(self.min_replay_size).is_ok_and(|least| least <= self.max_replay_size);
        check("max_replay_size", self.max_replay_size, fits, "at least min_replay_size")
    }

    /// Steps before learning begins: at least a batch.
    pub(crate) fn steps_before_learning(&self) -> u64 {
        self.min_replay_size.max(self.batch_size) as u64
    }

    /// The replay table for an agent that paces itself: nobody is ever held back.
    #[must_use]
    pub fn unpaced_table(&self) -> TableConfig {
        TableConfig::new(TABLE)
            .sampler(SelectorKind::Prioritized { exponent: self.priority_exponent })
            .remover(SelectorKind::Fifo)
            .max_size(self.max_replay_size)
    }

    /// The replay table for actors and a learner that the table keeps in step: `samples_per_insert` transitions are sampled for each one
    /// inserted.
    ///
    /// # Errors
    /// A ratio that no table can keep.
    pub fn paced_table(&self) -> Result<TableConfig> {
        let least = i64::try_from(self.min_replay_size.max(self.batch_size)).unwrap_or(i64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a tolerance")]
        let buffer = RATIO_TOLERANCE * self.samples_per_insert * least as f64;
        let buffer = buffer.max(2.0 * self.samples_per_insert.max(self.batch_size as f64));
        let limiter = RateLimiterConfig::sample_to_insert_ratio(
            self.samples_per_insert,
            least,
            ErrorBuffer::Around(buffer),
        );
        let limiter = limiter
            .map_err(|error| RlError::setting("samples_per_insert", error, "a ratio that can be kept"))?;
        Ok(self.unpaced_table().rate_limiter(limiter))
    }
}

fn check(
    name: &'static str,
    value: impl std::fmt::Display,
    holds: bool,
    expected: &'static str,
) -> Result<()> {
    if holds { Ok(()) } else { Err(RlError::setting(name, value, expected)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be() {
        assert!(DqnConfig::default().validate().is_ok());
        assert!(DqnConfig::default().paced_table().is_ok());
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
