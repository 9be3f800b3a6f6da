//! Settings and plan.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Agent, Policy, Result, Seat, settings_of};
use relive_table::TableConfig;
use serde::{Deserialize, Serialize};

use super::learner::SacLearner;
use super::policy::SacPolicy;
use crate::off_policy::{Demonstrations, OffPolicy};
use crate::settings::{check, layers, positive, share};

/// The settings of SAC (Haarnoja et al. 2018b), for one array of float32 between bounds. The defaults are those of Stable-Baselines3.
///
/// Deviations from the paper: all gradients of a batch are made with the parameters before it, as in Acme; the logarithm of the temperature
/// is what is learned, as in most implementations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SacConfig {
    /// Transitions of a batch.
    pub batch_size: usize,
    /// How often each transition is learned from, on average; as `batch_size`, one gradient step for each step in the environment.
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
        }
    }
}

impl SacConfig {
    /// Settings for an environment by its name: what is known to learn there fast, and otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> SacConfig {
        match name {
            "Pendulum-v1" => SacConfig { learning_rate: 1e-3, discount: 0.95, ..SacConfig::default() },
            _ => SacConfig::default(),
        }
    }
}

impl SacConfig {
    /// Those of the replay table, and of how it is filled.
    fn off_policy(&self) -> OffPolicy {
        OffPolicy {
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            n_step: self.n_step,
            discount: self.discount,
            min_replay_size: self.min_replay_size,
            max_replay_size: self.max_replay_size,
        }
    }
}

impl Agent for SacConfig {
    fn name(&self) -> &'static str {
        "sac"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.off_policy().validate()?;
        layers(&self.hidden)?;
        share("tau", self.tau)?;
        positive("learning_rate", self.learning_rate)?;
        positive("initial_temperature", self.initial_temperature)?;
        let entropy = self.target_entropy.unwrap_or(0.0);
        check("target_entropy", entropy, entropy.is_finite(), "a finite number")
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.off_policy().table()?])
    }

    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(SacPolicy::new(self, seat)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (learner, off_policy) = (crew.learner(SacLearner::new(self, crew)?)?, self.off_policy());
        let learning = off_policy.batches(crew, &Demonstrations::default())?.learn(learner);
        off_policy.plan(crew, learning, off_policy.transitions(crew))
    }
}
