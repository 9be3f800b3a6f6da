//! Identifiers such as `catch/0`.

use std::fmt;
use std::str::FromStr;

use super::Experiment;
use crate::error::{EnvError, Mismatch};

/// One setting of one experiment.
///
/// ```
/// use relive_env::bsuite::{BsuiteId, Experiment};
/// let id: BsuiteId = "deep_sea/3".parse()?;
/// assert_eq!(id.experiment(), Experiment::DeepSea);
/// assert_eq!(id.setting("size"), Some(16.0));
/// assert_eq!(BsuiteId::all().count(), 468 - 60, "all of bsuite's but MNIST's");
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BsuiteId {
    experiment: Experiment,
    index: u32,
}

impl BsuiteId {
    /// Returns the setting with the given number.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if the experiment does not have that many settings.
    pub fn new(experiment: Experiment, index: u32) -> Result<Self, EnvError> {
        if index < experiment.num_ids() {
            Ok(Self { experiment, index })
        } else {
            Err(unknown(experiment, format_args!("{experiment}/{index}")))
        }
    }

    /// Returns all identifiers except MNIST's, in the order of bsuite's sweep.
    pub fn all() -> impl Iterator<Item = Self> {
        Experiment::ALL.into_iter().flat_map(Self::of)
    }

    /// Returns all identifiers of an experiment.
    pub fn of(experiment: Experiment) -> impl Iterator<Item = Self> {
        (0..experiment.num_ids()).map(move |index| Self { experiment, index })
    }

    /// Returns the experiment.
    #[must_use]
    pub fn experiment(self) -> Experiment {
        self.experiment
    }

    /// Returns the number of the setting.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the settings with their names in bsuite. The list is empty if identifiers differ only in their seed.
    #[must_use]
    pub fn settings(self) -> Vec<(&'static str, f64)> {
        self.experiment.settings(self.index).unwrap_or_default()
    }

    /// Returns the value of the setting with the given name.
    #[must_use]
    pub fn setting(self, name: &str) -> Option<f64> {
        self.settings().into_iter().find(|(setting, _)| *setting == name).map(|(_, value)| value)
    }

    /// Returns the name of bsuite's log file for this identifier.
    #[must_use]
    pub fn csv_file_name(self) -> String {
        format!("bsuite_id_-_{}-{}.csv", self.experiment, self.index)
    }
}

impl fmt::Display for BsuiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.experiment, self.index)
    }
}

impl FromStr for BsuiteId {
    type Err = EnvError;

    fn from_str(text: &str) -> Result<Self, EnvError> {
        let (name, index) = text.split_once('/').unwrap_or((text, ""));
        let experiment = Experiment::named(name).ok_or_else(|| no_experiment(text))?;
        match index.parse() {
            Ok(index) => Self::new(experiment, index),
            Err(_) => Err(unknown(experiment, text)),
        }
    }
}

fn unknown(experiment: Experiment, actual: impl fmt::Display) -> EnvError {
    let last = experiment.num_ids() - 1;
    let expected = format_args!("an id from {experiment}/0 to {experiment}/{last}");
    EnvError::Setting(Mismatch::boxed("bsuite_id", expected, actual))
}

fn no_experiment(text: &str) -> EnvError {
    let names = Experiment::ALL.iter().chain(&Experiment::MNIST);
    let names: Vec<_> = names.map(|experiment| experiment.name()).collect();
    let expected = format!("EXPERIMENT/NUMBER, the experiment one of {}", names.join(", "));
    EnvError::Setting(Mismatch::boxed("bsuite_id", expected, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bsuite_ids_parse_back() {
        for id in BsuiteId::all().chain(Experiment::MNIST.into_iter().flat_map(BsuiteId::of)) {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn unknown_ids_are_refused_with_the_valid_ones() {
        let error_of = |text: &str| text.parse::<BsuiteId>().unwrap_err().to_string();
        assert!(error_of("catch/20").ends_with("expected an id from catch/0 to catch/19, got catch/20"));
        assert!(error_of("catch").ends_with("expected an id from catch/0 to catch/19, got catch"));
        assert!(error_of("pong/0").contains("one of bandit, bandit_noise,"), "{}", error_of("pong/0"));
        assert!(error_of("mnist/20").ends_with("expected an id from mnist/0 to mnist/19, got mnist/20"));
    }

    #[test]
    fn settings_match_bsuite() {
        let settings = |text: &str| text.parse::<BsuiteId>().unwrap().settings();
        assert_eq!(settings("bandit_noise/19"), [("noise_scale", 10.0), ("mapping_seed", 3.0)]);
        assert_eq!(
            settings("cartpole_swingup/5"),
            [("height_threshold", 0.25), ("x_reward_threshold", 0.75)]
        );
        assert_eq!(settings("memory_size/16"), [("num_bits", 40.0)]);
        assert_eq!(settings("umbrella_length/22"), [("chain_length", 100.0), ("n_distractor", 20.0)]);
        assert_eq!(settings("catch/3"), []);
        assert_eq!(settings("mnist/3"), []);
        assert_eq!(settings("mnist_scale/19"), [("reward_scale", 1_000.0)]);
    }
}
