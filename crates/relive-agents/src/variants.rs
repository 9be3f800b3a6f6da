//! Agents that are variants of other agents.

use std::path::PathBuf;

use relive_flow::Flow;
use relive_rl::plan::{Crew, Progress};
use relive_rl::{Agent, Policy, PolicyContext, Result};
use relive_table::TableConfig;
use serde::{Deserialize, Serialize};

use crate::{Demonstrations, DqnConfig, DqnLoss, R2d2Config};

/// Defines a named variant of another agent: the same settings with different defaults.
macro_rules! variant {
    ($(#[$about:meta])* $variant:ident, $of:ident, $name:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $variant(pub $of);

        impl Agent for $variant {
            fn name(&self) -> &'static str {
                $name
            }

            fn settings(&self) -> Vec<(String, String)> {
                self.0.settings()
            }

            fn validate(&self) -> Result<()> {
                self.0.validate()
            }

            fn environments(&self, workers: usize) -> usize {
                self.0.environments(workers)
            }

            fn tables(&self) -> Result<Vec<TableConfig>> {
                self.0.tables()
            }

            fn steps_per_item(&self) -> Option<usize> {
                self.0.steps_per_item()
            }

            fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
                self.0.policy(context)
            }

            fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
                self.0.plan(crew)
            }
        }
    };
}

variant! {
    /// The settings of Ape-X DQN (Horgan et al. 2018): [`DqnConfig`] with many actors that differ in how much they
    /// explore.
    ///
    /// Deviations from the paper: Adam replaces RMSProp; actors receive each version of the weights when it is
    /// published; new transitions have priority 1 until they are sampled.
    ApexConfig, DqnConfig, "apex"
}

impl Default for ApexConfig {
    fn default() -> Self {
        ApexConfig(DqnConfig {
            n_step: 3,
            epsilon: 0.4,
            epsilon_alpha: 7.0,
            importance_exponent: 0.4,
            duelling: true,
            max_gradient_norm: Some(40.0),
            ..DqnConfig::default()
        })
    }
}

impl ApexConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> ApexConfig {
        let (known, apex) = (DqnConfig::for_environment(name), ApexConfig::default().0);
        if known == DqnConfig::default() {
            return ApexConfig(apex);
        }
        // The tuned settings explore little, because with few actors, the strong exploration of the first actor would
        // spoil the experience.
        ApexConfig(DqnConfig { epsilon: 0.02, epsilon_alpha: 3.0, ..known })
    }
}

variant! {
    /// The settings of Rainbow (Hessel et al. 2018): [`DqnConfig`] with a distribution of returns, noisy networks, a
    /// duelling head, and prioritized transitions over three steps.
    ///
    /// Deviations from the paper: importance weights do not grow over the run; a new transition has the priority 1, as in
    /// Acme, instead of the greatest priority so far.
    RainbowConfig, DqnConfig, "rainbow"
}

impl Default for RainbowConfig {
    fn default() -> Self {
        RainbowConfig(DqnConfig {
            loss: DqnLoss::Categorical,
            noisy: true,
            epsilon: 0.0,
            duelling: true,
            n_step: 3,
            priority_exponent: 0.5,
            importance_exponent: 0.4,
            max_gradient_norm: Some(10.0),
            ..DqnConfig::default()
        })
    }
}

impl RainbowConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> RainbowConfig {
        let (known, RainbowConfig(rainbow)) = (DqnConfig::for_environment(name), RainbowConfig::default());
        if known.loss != DqnLoss::Categorical {
            return RainbowConfig(rainbow);
        }
        let DqnConfig { value_range, max_abs_reward, samples_per_insert, hidden, .. } = known;
        RainbowConfig(DqnConfig { value_range, max_abs_reward, samples_per_insert, hidden, ..rainbow })
    }
}

variant! {
    /// The settings of DQfD as in Acme, after Hester et al. 2018: [`DqnConfig`] with batches that are half
    /// demonstrations.
    ///
    /// Deviations from the paper, as in Acme: no large-margin loss and no weight decay; transitions are sampled
    /// uniformly, in a fixed ratio.
    DqfdConfig, DqnConfig, "dqfd"
}

impl Default for DqfdConfig {
    fn default() -> Self {
        DqfdConfig(DqnConfig {
            samples_per_insert: 8.0,
            priority_exponent: 0.0,
            importance_exponent: 0.0,
            demonstrations: half(1),
            ..DqnConfig::default()
        })
    }
}

impl DqfdConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> DqfdConfig {
        let DqfdConfig(dqfd) = DqfdConfig::default();
        // With demonstrations the agent needs little exploration.
        let epsilon = if name.starts_with("deep_sea") { 0.02 } else { dqfd.epsilon };
        DqfdConfig(DqnConfig { demonstrations: half(episodes(name)), epsilon, ..dqfd })
    }
}

variant! {
    /// The settings of R2D3 (Paine et al. 2019): [`R2d2Config`] with batches that are partly demonstrations.
    ///
    /// Deviations from the paper, as in Acme: sequences are sampled uniformly, in a fixed ratio.
    R2d3Config, R2d2Config, "r2d3"
}

impl Default for R2d3Config {
    fn default() -> Self {
        R2d3Config(with_demonstrations(R2d2Config::default(), 1))
    }
}

impl R2d3Config {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> R2d3Config {
        R2d3Config(with_demonstrations(R2d2Config::for_environment(name), episodes(name)))
    }
}

fn with_demonstrations(r2d2: R2d2Config, episodes: usize) -> R2d2Config {
    let demonstrations = half(episodes);
    R2d2Config { priority_exponent: 0.0, importance_exponent: 0.0, demonstrations, ..r2d2 }
}

fn half(episodes: usize) -> Demonstrations {
    let folder: Option<PathBuf> = None;
    Demonstrations { ratio: 0.5, folder, episodes }
}

/// Returns the number of demonstrations for an environment. A single demonstration shows little of a random
/// environment.
fn episodes(name: &str) -> usize {
    if name.starts_with("deep_sea_stochastic/") { 100 } else { 1 }
}
