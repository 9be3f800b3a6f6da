//! The settings of a DQN agent.

use relive_rl::Result;
use serde::{Deserialize, Serialize};

use crate::off_policy::{Demonstrations, OffPolicy, off_policy};
use crate::settings::{check, distribution, fraction, layers, positive, settings};

/// The meaning of the network's outputs, and their targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DqnLoss {
    /// Values, learned by double Q-learning (van Hasselt et al. 2016) with the Huber loss.
    #[default]
    DoubleQ,
    /// Values, learned by Q-learning (Mnih et al. 2013): the target network also chooses the next action, and the loss
    /// is the squared error.
    QLearning,
    /// Q-learning with half the squared error plus a tenth of the values themselves, which keeps the values low.
    RegularizedQ,
    /// Values whose targets reward likely actions (Vieillard et al. 2020), with the Huber loss.
    Munchausen,
    /// Distributions over evenly spaced atoms, C51 (Bellemare et al. 2017); double Q chooses the next action.
    Categorical,
    /// Quantiles of distributions, QR-DQN (Dabney et al. 2018); double Q chooses the next action.
    Quantile,
    /// Quantiles at random fractions, IQN (Dabney et al. 2018, "Implicit quantile networks"); double Q chooses the next
    /// action.
    ImplicitQuantile,
}

settings! {
    /// The settings of a DQN agent. The defaults are taken from Acme's agent.
    pub struct DqnConfig {
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
        /// The number of tables that share the transitions. Each contributes its part of a batch, sampled according to
        /// its own priorities.
        pub replay_shards: usize = 1,
        /// The exponent of the priorities when transitions are sampled; 0 samples uniformly.
        pub priority_exponent: f64 = 0.6,
        /// The exponent β of the importance weights, which correct the bias of prioritized sampling.
        pub importance_exponent: f32 = 0.2,
        /// The probability of a random action.
        pub epsilon: f64 = 0.05,
        /// The spread of ε over the environments: row i of N has ε^(1 + α·i/(N − 1)), as in Ape-X; 0 gives all rows the
        /// same ε.
        pub epsilon_alpha: f64 = 0.0,
        /// The number of steps of all environments, resets included, over which the probability of a random action
        /// falls linearly from 1 to ε; 0: it is ε from the start, as in Acme. With actors, the decay starts over when
        /// an actor is restarted or the run is resumed.
        pub epsilon_decay_steps: u64 = 0,
        /// The step size of Adam.
        pub learning_rate: f32 = 1e-3,
        /// The number of learner steps between copies to the target network.
        pub target_update_period: u64 = 100,
        /// The error at which the Huber loss changes from quadratic to linear.
        pub huber: f32 = 1.0,
        /// Returns over `n_step` are clipped to ± this value, which must be finite; a very large number, such as
        /// `f32::MAX`, disables clipping.
        pub max_abs_reward: f32 = 1.0,
        /// The bound on the gradient's norm; none unless set.
        pub max_gradient_norm: Option<f32> = None,
        /// The sizes of the hidden layers.
        pub hidden: Vec<usize> = vec![50, 50],
        /// Whether the network has a value and an advantage head.
        pub duelling: bool = false,
        /// Whether noise of learned magnitude is added to the weights of linear layers. The noise explores, so
        /// `epsilon` may be 0 (Fortunato et al. 2018).
        pub noisy: bool = false,
        /// The meaning of the network's outputs, and their targets.
        pub loss: DqnLoss = DqnLoss::DoubleQ,
        /// The number of atoms of a categorical distribution, or quantiles.
        pub atoms: usize = 51,
        /// The number of fractions drawn for each transition to learn implicit quantiles; the targets use the same
        /// number.
        pub quantile_samples: usize = 8,
        /// The values of the lowest and the highest atom of a categorical distribution.
        pub value_range: [f32; 2] = [-10.0, 10.0],
        /// Demonstrations from which the agent learns in addition to its own experience; none by default.
        pub demonstrations: Demonstrations = Demonstrations::default(),
    }
}

impl DqnConfig {
    /// Returns the settings for a named environment, such as `CartPole-v1`: tuned settings if there are any, otherwise
    /// the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> DqnConfig {
        match name {
            "CartPole-v1" => DqnConfig::cart_pole(),
            "pixels/catch" => DqnConfig::pixel_catch(),
            _ => DqnConfig::default(),
        }
    }

    /// With a loss that learns values rather than distributions, the agent often learns to balance the pole, but the
    /// cart drifts out of bounds after a few hundred steps. Distributions, unclipped returns, and twice as many samples
    /// per insert solve the task.
    fn cart_pole() -> DqnConfig {
        DqnConfig {
            loss: DqnLoss::Categorical,
            value_range: [0.0, 100.0],
            n_step: 3,
            max_abs_reward: 1_000.0,
            samples_per_insert: 64.0,
            hidden: vec![64, 64],
            ..DqnConfig::default()
        }
    }

    /// Convolutions are so expensive that a step learns from few transitions. Larger Adam steps learn as fast, but the
    /// agent then misses a ball occasionally.
    fn pixel_catch() -> DqnConfig {
        DqnConfig {
            batch_size: 32,
            samples_per_insert: 8.0,
            max_replay_size: 10_000,
            epsilon: 0.01,
            learning_rate: 3e-4,
            hidden: vec![128],
            ..DqnConfig::default()
        }
    }

    /// Returns the settings of the replay table and of the adders that fill it.
    pub(super) fn off_policy(&self) -> OffPolicy {
        OffPolicy { shards: self.replay_shards, ..off_policy!(self) }
    }

    /// Checks that all settings are within their ranges.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        self.off_policy().validate()?;
        self.demonstrations.validate(self.batch_size)?;
        self.off_policy().validate_shares(&self.demonstrations)?;
        fraction("importance_exponent", self.importance_exponent)?;
        check("epsilon", self.epsilon, (0.0..=1.0).contains(&self.epsilon), "from 0 to 1")?;
        let alpha = self.epsilon_alpha;
        check("epsilon_alpha", alpha, alpha >= 0.0 && alpha.is_finite(), "at least 0")?;
        let exponent = self.priority_exponent;
        check("priority_exponent", exponent, exponent >= 0.0 && exponent.is_finite(), "at least 0")?;
        positive("learning_rate", self.learning_rate)?;
        positive("huber", self.huber)?;
        positive("max_abs_reward", self.max_abs_reward)?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", norm))?;
        let period = self.target_update_period;
        check("target_update_period", period, period >= 1, "at least 1")?;
        layers(&self.hidden)?;
        let samples = self.quantile_samples;
        check("quantile_samples", samples, (1..=4_096).contains(&samples), "from 1 to 4096")?;
        let has_torso = self.loss != DqnLoss::ImplicitQuantile || !self.hidden.is_empty();
        check("hidden", "empty", has_torso, "at least one layer when quantiles are implicit")?;
        distribution(self.value_range, self.atoms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid() {
        let cart_pole = DqnConfig::for_environment("CartPole-v1");
        assert!(cart_pole.validate().is_ok() && DqnConfig::default().validate().is_ok());
        assert_ne!(cart_pole, DqnConfig::default());
        assert!(DqnConfig::for_environment("pixels/catch").validate().is_ok());
        assert_eq!(DqnConfig::for_environment("catch/0"), DqnConfig::default());
    }

    #[test]
    fn settings_out_of_range_are_reported() {
        type Change = fn(&mut DqnConfig);
        for (change, expected) in [
            ((|config| config.batch_size = 0) as Change, "batch_size is 0, but it must be from 1 to 1048576"),
            (|config| config.epsilon = 1.5, "epsilon is 1.5, but it must be from 0 to 1"),
            (|config| config.learning_rate = f32::NAN, "learning_rate is NaN, but it must be above 0"),
            (
                |config| config.samples_per_insert = f64::INFINITY,
                "samples_per_insert is inf, but it must be above 0 and finite",
            ),
            (
                |config| config.max_replay_size = 10,
                "max_replay_size is 10, but it must be at least min_replay_size",
            ),
            (|config| config.hidden = vec![0], "hidden is 0, but it must be a list of sizes of at least 1"),
            (
                |config| config.hidden = vec![1; 300],
                "the number of hidden layers is 300, but it must be at most 64",
            ),
            (|config| config.atoms = 1, "atoms is 1, but it must be from 2 to 4096"),
            (
                |config| {
                    config.hidden = Vec::new();
                    config.loss = DqnLoss::ImplicitQuantile;
                },
                "hidden is empty, but it must be at least one layer when quantiles are implicit",
            ),
            (
                |config| config.value_range = [1.0, 1.0],
                "value_range is [1, 1], but it must be an increasing range",
            ),
        ] {
            let mut config = DqnConfig::default();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), expected);
        }
    }
}
