//! The common settings of MPO and DMPO.

use relive_nn::heads::NormalHead;
use relive_nn::losses::Mpo;
use relive_rl::{Policy, PolicyContext, Result};

use crate::continuous::{Body, ContinuousPolicy, Drawing, Layers, Returns, Role, TargetUpdate};
use crate::off_policy::OffPolicy;
use crate::settings::{check, correlation, layers, positive};

/// The maximum number of actions sampled in a state; 20 is usual.
const MAX_SAMPLES: usize = 1_024;

/// Settings of MPO, with any kind of critic.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) off_policy: OffPolicy,
    pub(super) policy_learning_rate: f32,
    pub(super) critic_learning_rate: f32,
    pub(super) dual_learning_rate: f32,
    pub(super) target_policy_period: u64,
    pub(super) target_critic_period: u64,
    pub(super) returns: Returns,
    pub(super) samples: usize,
    pub(super) bounds: Mpo,
    pub(super) initial_stddev: f32,
    pub(super) max_gradient_norm: f32,
    pub(super) noise_correlation: f32,
    pub(super) normalize_observations: bool,
    pub(super) hidden: Vec<usize>,
    pub(super) critic_hidden: Vec<usize>,
}

impl Settings {
    /// Checks that all settings are within their ranges.
    pub(super) fn validate(&self) -> Result<()> {
        self.off_policy.validate()?;
        for (name, value) in [
            ("policy_learning_rate", self.policy_learning_rate),
            ("critic_learning_rate", self.critic_learning_rate),
            ("dual_learning_rate", self.dual_learning_rate),
            ("epsilon", self.bounds.epsilon),
            ("epsilon_penalty", self.bounds.epsilon_penalty),
            ("epsilon_mean", self.bounds.epsilon_mean),
            ("epsilon_stddev", self.bounds.epsilon_stddev),
            ("initial_stddev", self.initial_stddev),
            ("max_gradient_norm", self.max_gradient_norm),
        ] {
            positive(name, value)?;
        }
        for (name, period) in [
            ("target_policy_period", self.target_policy_period),
            ("target_critic_period", self.target_critic_period),
        ] {
            check(name, period, period >= 1, "at least 1")?;
        }
        check("samples", self.samples, (2..=MAX_SAMPLES).contains(&self.samples), "from 2 to 1024")?;
        correlation(self.noise_correlation)?;
        layers(&self.hidden)?;
        layers(&self.critic_hidden)
    }

    pub(super) fn head(&self, dimensions: usize) -> NormalHead {
        NormalHead { init_scale: self.initial_stddev, ..NormalHead::new(dimensions) }
    }

    pub(super) fn policy_layers(&self) -> Layers<'_> {
        Layers { body: Body::LayerNorm, hidden: &self.hidden }
    }

    pub(super) fn critic_layers(&self) -> Layers<'_> {
        Layers { body: Body::LayerNorm, hidden: &self.critic_hidden }
    }

    pub(super) fn target_updates(&self) -> [TargetUpdate; 2] {
        [self.target_policy_period, self.target_critic_period].map(|period| TargetUpdate::Copy { period })
    }

    pub(super) fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let drawing = |dimensions| Drawing::Normal(self.head(dimensions));
        let exploration = (self.normalize_observations, self.noise_correlation);
        ContinuousPolicy::create(context, self.policy_layers(), (2, Role::NearZero), drawing, exploration)
    }
}
