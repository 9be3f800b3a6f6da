//! Asynchronous advantage actor-critic.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Progress};
use relive_rl::{Agent, Policy, PolicyContext, Result, settings_of};
use serde::{Deserialize, Serialize};

use crate::A2cConfig;
use crate::settings::check;

/// The settings of A3C (Mnih et al. 2016). Each worker computes the gradient of its own rollout, and the learner
/// applies gradients as they arrive. The settings are the same as in [`A2cConfig`], but apply to each worker:
/// `num_envs` counts the environments of one worker. Without actors, A3C learns like A2C.
///
/// Workers share no statistics, so neither observations nor rewards can be normalized.
///
/// Deviations from the paper: workers have several environments; the policy and the value have separate networks;
/// initial weights are orthogonal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct A3cConfig(pub A2cConfig);

impl A3cConfig {
    /// Returns the settings for a named environment. They are always the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> A3cConfig {
        A3cConfig(A2cConfig::for_environment(name))
    }
}

impl Agent for A3cConfig {
    fn name(&self) -> &'static str {
        "a3c"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        let A2cConfig { normalize_observations, normalize_rewards, .. } = self.0;
        let expected = "false: the workers of A3C do not share statistics";
        check("normalize_observations", normalize_observations, !normalize_observations, expected)?;
        check("normalize_rewards", normalize_rewards, !normalize_rewards, expected)?;
        self.0.shared().validate()
    }

    fn environments(&self, workers: usize) -> usize {
        workers.saturating_mul(self.0.num_envs)
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        self.0.shared().policy(context)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        self.0.shared().asynchronous_plan(crew)
    }
}
