//! The common settings of MPO and DMPO.

use relive_nn::heads::NormalHead;
use relive_nn::losses::Mpo;
use relive_rl::{Policy, PolicyContext, Result};

use super::MpoConfig;
use crate::continuous::{Body, ContinuousPolicy, Drawing, Layers, Returns, Role, TargetUpdate};
use crate::off_policy::{OffPolicy, off_policy};
use crate::settings::{check, correlation, layers, positive};
use crate::shared_agent::shared_agent;

/// The maximum number of actions sampled in a state; 20 is usual.
const MAX_SAMPLES: usize = 1_024;

/// Settings of MPO, with any kind of critic.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) config: MpoConfig,
    pub(super) off_policy: OffPolicy,
    /// What the critic outputs.
    pub(super) returns: Returns,
}

impl MpoConfig {
    pub(super) fn shared(&self) -> Settings {
        Settings::new(self.clone(), Returns::Value)
    }
}

shared_agent!(MpoConfig, "mpo");

impl Settings {
    pub(super) fn new(config: MpoConfig, returns: Returns) -> Settings {
        let off_policy = off_policy!(config);
        Settings { config, off_policy, returns }
    }

    /// Checks that all settings are within their ranges.
    pub(super) fn validate(&self) -> Result<()> {
        self.off_policy.validate()?;
        let config = &self.config;
        for (name, value) in [
            ("policy_learning_rate", config.policy_learning_rate),
            ("critic_learning_rate", config.critic_learning_rate),
            ("dual_learning_rate", config.dual_learning_rate),
            ("epsilon", config.epsilon),
            ("epsilon_penalty", config.epsilon_penalty),
            ("epsilon_mean", config.epsilon_mean),
            ("epsilon_stddev", config.epsilon_stddev),
            ("initial_stddev", config.initial_stddev),
            ("max_gradient_norm", config.max_gradient_norm),
        ] {
            positive(name, value)?;
        }
        for (name, period) in [
            ("target_policy_period", config.target_policy_period),
            ("target_critic_period", config.target_critic_period),
        ] {
            check(name, period, period >= 1, "at least 1")?;
        }
        check("samples", config.samples, (2..=MAX_SAMPLES).contains(&config.samples), "from 2 to 1024")?;
        correlation(config.noise_correlation)?;
        layers(&config.hidden)?;
        layers(&config.critic_hidden)
    }

    pub(super) fn head(&self, dimensions: usize) -> NormalHead {
        NormalHead { init_scale: self.config.initial_stddev, ..NormalHead::new(dimensions) }
    }

    pub(super) fn policy_layers(&self) -> Layers<'_> {
        Layers { body: Body::LayerNorm, hidden: &self.config.hidden }
    }

    pub(super) fn critic_layers(&self) -> Layers<'_> {
        Layers { body: Body::LayerNorm, hidden: &self.config.critic_hidden }
    }

    pub(super) fn target_updates(&self) -> [TargetUpdate; 2] {
        [self.config.target_policy_period, self.config.target_critic_period]
            .map(|period| TargetUpdate::Copy { period })
    }

    pub(super) fn bounds(&self) -> Mpo {
        Mpo {
            epsilon: self.config.epsilon,
            epsilon_penalty: self.config.epsilon_penalty,
            epsilon_mean: self.config.epsilon_mean,
            epsilon_stddev: self.config.epsilon_stddev,
        }
    }

    pub(super) fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let drawing = |dimensions| Drawing::Normal(self.head(dimensions));
        let exploration = (self.config.normalize_observations, self.config.noise_correlation);
        ContinuousPolicy::create(context, self.policy_layers(), (2, Role::NearZero), drawing, exploration)
    }
}
