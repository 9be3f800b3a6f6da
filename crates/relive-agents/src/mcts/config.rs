//! The settings of MCTS.

use relive_rl::Result;
use serde::{Deserialize, Serialize};

use super::search::Rules;
use crate::off_policy::OffPolicy;
use crate::settings::{bsuite_family, check, layers, positive, share};

/// Most simulations of one step, each of which makes a node for every action.
const MAX_SIMULATIONS: usize = 1 << 16;

/// Where a search finds out what actions lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MctsModel {
    /// In the environment itself, which is restored after each simulation to where it was. It has to be one that can
    /// save its state. Its random streams are part of that: the search knows what chance will bring.
    #[default]
    Simulator,
    /// In a network that learns to predict observations, rewards and ends of episodes.
    Learned,
}

/// The settings of MCTS: AlphaZero's search (Silver et al. 2017) for one player, with rewards on the way. The
/// defaults are those of Acme's agent.
///
/// Deviations from the paper: policy and value learn from transitions in a replay table, the value by the reward and
/// the value of the next observation in the place of the outcome; Q is a mean of returns that are not scaled; the
/// noise at the root is off unless asked for. All as in Acme.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MctsConfig {
    /// Where the search finds out what actions lead to.
    pub model: MctsModel,
    /// Simulations for each action.
    pub num_simulations: usize,
    /// How much the prior counts in a search beside the values that were found, c of PUCT.
    pub exploration: f32,
    /// How much of the prior at the root is noise.
    pub noise_share: f32,
    /// α of that noise, which is drawn from a Dirichlet distribution: the smaller, the fewer actions it favours.
    pub noise_alpha: f32,
    /// Transitions of a batch.
    pub batch_size: usize,
    /// How often each transition is learned from, on average.
    pub samples_per_insert: f64,
    /// Steps of a transition.
    pub n_step: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// Transitions before learning begins.
    pub min_replay_size: usize,
    /// Transitions that are kept.
    pub max_replay_size: u64,
    /// Step size of Adam.
    pub learning_rate: f32,
    /// Bound on the gradient's norm; none unless set.
    pub max_gradient_norm: Option<f32>,
    /// Sizes of the hidden layers of policy and value.
    pub hidden: Vec<usize>,
    /// Sizes of the hidden layers of a learned model.
    pub model_hidden: Vec<usize>,
}

impl Default for MctsConfig {
    fn default() -> Self {
        Self {
            model: MctsModel::default(),
            num_simulations: 50,
            exploration: 1.0,
            noise_share: 0.0,
            noise_alpha: 1.0,
            batch_size: 16,
            samples_per_insert: 16.0,
            n_step: 1,
            discount: 0.99,
            min_replay_size: 16,
            max_replay_size: 10_000,
            learning_rate: 1e-3,
            max_gradient_norm: None,
            hidden: vec![50, 50],
            model_hidden: vec![128, 128],
        }
    }
}

impl MctsConfig {
    /// Settings for an environment by its name: what is known to learn there fast, and otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> MctsConfig {
        match bsuite_family(name) {
            // What there is to earn is too far for one search: the noise leads on, where a network without it soon
            // says what it did before.
            Some("deep_sea" | "deep_sea_stochastic") => {
                MctsConfig { noise_share: 0.25, ..MctsConfig::default() }
            }
            _ => MctsConfig::default(),
        }
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

    /// Those of a search.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            simulations: self.num_simulations,
            discount: self.discount,
            exploration: self.exploration,
            noise_share: self.noise_share,
            noise_alpha: self.noise_alpha,
        }
    }

    /// Whether all settings are within their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn validate(&self) -> Result<()> {
        self.off_policy().validate()?;
        let simulations = 1..=MAX_SIMULATIONS;
        let count = self.num_simulations;
        check("num_simulations", count, simulations.contains(&count), "from 1 to 65536")?;
        positive("exploration", self.exploration)?;
        share("noise_share", self.noise_share)?;
        positive("noise_alpha", self.noise_alpha)?;
        positive("learning_rate", self.learning_rate)?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", norm))?;
        let is_of_one_step = self.model == MctsModel::Simulator || self.n_step == 1;
        check(
            "n_step",
            self.n_step,
            is_of_one_step,
            "1 where the model is learned, which is of single steps",
        )?;
        layers(&self.hidden)?;
        layers(&self.model_hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_told() {
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
                "n_step is 3, but it must be 1 where the model is learned, which is of single steps",
            ),
        ] {
            let mut config = MctsConfig::default();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), expected);
        }
    }
}
