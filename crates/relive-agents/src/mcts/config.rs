//! The settings of MCTS.

use relive_rl::Result;
use serde::{Deserialize, Serialize};

use super::search::Rules;
use crate::off_policy::{OffPolicy, off_policy};
use crate::settings::{bsuite_family, check, fraction, layers, positive, settings};

/// The maximum number of simulations per step; each simulation creates a node for every action.
const MAX_SIMULATIONS: usize = 1 << 16;

/// Where a search looks up the consequences of actions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MctsModel {
    /// The environment itself, which is restored to its state after each simulation. It must be able to save its state.
    /// The state includes its random streams, so the search can predict random outcomes.
    #[default]
    Simulator,
    /// A network that learns to predict observations, rewards and ends of episodes.
    Learned,
}

settings! {
    /// The settings of MCTS: AlphaZero's search (Silver et al. 2017) for one player, with intermediate rewards. The
    /// defaults are taken from Acme's agent.
    ///
    /// Deviations from the paper, as in Acme: the policy and the value learn from transitions in a replay table. The
    /// target of the value is the reward plus the value of the next observation, instead of the outcome. Q is a mean of
    /// unscaled returns. The root has no noise unless requested.
    pub struct MctsConfig {
        /// Where the search looks up the consequences of actions.
        pub model: MctsModel = MctsModel::Simulator,
        /// The number of simulations for each action.
        pub num_simulations: usize = 50,
        /// The weight of the prior relative to the values found, c of PUCT.
        pub exploration: f32 = 1.0,
        /// The share of noise in the prior at the root.
        pub noise_share: f32 = 0.0,
        /// α of the noise's Dirichlet distribution: the smaller α is, the fewer actions it favors.
        pub noise_alpha: f32 = 1.0,
        /// The number of transitions in a batch.
        pub batch_size: usize = 16,
        /// How many times each transition is sampled, on average.
        pub samples_per_insert: f64 = 16.0,
        /// The number of steps that a transition spans.
        pub n_step: usize = 1,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The number of transitions in the table before learning starts.
        pub min_replay_size: usize = 16,
        /// The capacity of the replay table, in transitions.
        pub max_replay_size: u64 = 10_000,
        /// The number of environments, divided among the actors; at least one for each actor. An actor acts in all of its
        /// environments at once.
        pub num_envs: usize = 1,
        /// The step size of Adam.
        pub learning_rate: f32 = 1e-3,
        /// The bound on the gradient's norm; none unless set.
        pub max_gradient_norm: Option<f32> = None,
        /// The sizes of the hidden layers of the network for the policy and the value.
        pub hidden: Vec<usize> = vec![50, 50],
        /// The sizes of the hidden layers of a learned model.
        pub model_hidden: Vec<usize> = vec![128, 128],
    }
}

impl MctsConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> MctsConfig {
        match bsuite_family(name) {
            // The reward is too far away for a single search to find it. Noise makes the agent explore; without noise,
            // the network soon repeats its earlier actions.
            Some("deep_sea" | "deep_sea_stochastic") => {
                MctsConfig { noise_share: 0.25, ..MctsConfig::default() }
            }
            _ => MctsConfig::default(),
        }
    }

    /// Returns the settings of the replay table and of the adders that fill it.
    pub(super) fn off_policy(&self) -> OffPolicy {
        off_policy!(self)
    }

    /// Returns the settings of a search.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            simulations: self.num_simulations,
            discount: self.discount,
            exploration: self.exploration,
            noise_share: self.noise_share,
            noise_alpha: self.noise_alpha,
        }
    }

    /// Checks that all settings are within their ranges.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        self.off_policy().validate()?;
        let simulations = 1..=MAX_SIMULATIONS;
        let count = self.num_simulations;
        check("num_simulations", count, simulations.contains(&count), "from 1 to 65536")?;
        positive("exploration", self.exploration)?;
        fraction("noise_share", self.noise_share)?;
        positive("noise_alpha", self.noise_alpha)?;
        positive("learning_rate", self.learning_rate)?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", norm))?;
        let is_of_one_step = self.model == MctsModel::Simulator || self.n_step == 1;
        check(
            "n_step",
            self.n_step,
            is_of_one_step,
            "1 if the model is learned, because it predicts single steps",
        )?;
        layers(&self.hidden)?;
        layers(&self.model_hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_reported() {
        type Change = fn(&mut MctsConfig);
        for name in ["catch/0", "deep_sea/0"] {
            assert!(MctsConfig::for_environment(name).validate().is_ok());
        }
        for (change, expected) in [
            (
                (|config| config.num_simulations = 0) as Change,
                "num_simulations is 0, but it must be from 1 to 65536",
            ),
            (|config| config.exploration = 0.0, "exploration is 0, but it must be above 0"),
            (|config| config.noise_share = 1.5, "noise_share is 1.5, but it must be from 0 to 1"),
            (|config| config.noise_alpha = -1.0, "noise_alpha is -1, but it must be above 0"),
            (
                |config| config.model_hidden = vec![0],
                "hidden is 0, but it must be a list of sizes of at least 1",
            ),
            (
                |config| (config.model, config.n_step) = (MctsModel::Learned, 3),
                "n_step is 3, but it must be 1 if the model is learned, because it predicts single steps",
            ),
        ] {
            let mut config = MctsConfig::default();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), expected);
        }
    }
}
