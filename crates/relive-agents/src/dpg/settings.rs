//! The common settings of agents with a deterministic policy, and their differences.

use relive_rl::{Policy, PolicyContext, Result};

use crate::continuous::{Body, ContinuousPolicy, Drawing, Layers, Returns, Role, TargetUpdate};
use crate::off_policy::OffPolicy;
use crate::settings::{check, correlation, fraction, layers, not_negative, positive};

/// The settings of an agent with a deterministic policy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) off_policy: OffPolicy,
    pub(crate) policy_learning_rate: f32,
    pub(crate) critic_learning_rate: f32,
    /// The number of critics. The target uses the lowest of their values; the policy ascends the value of the first
    /// critic.
    pub(crate) critics: usize,
    pub(crate) returns: Returns,
    pub(crate) target_update: TargetUpdate,
    pub(crate) policy: PolicyRule,
    /// The bound on the norm of ∂Q/∂a for each sample.
    pub(crate) max_action_gradient: Option<f32>,
    /// The bounds on the norms of the policy's and the critics' gradients.
    pub(crate) max_gradient_norm: Option<f32>,
    /// Exploration noise.
    pub(crate) noise: f32,
    pub(crate) noise_correlation: f32,
    pub(crate) normalize_observations: bool,
    pub(crate) hidden: Vec<usize>,
    pub(crate) critic_hidden: Vec<usize>,
}

/// How the policy is updated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PolicyRule {
    /// Whether the policy is updated at the next observations, as in Acme, rather than at the first ones.
    pub(crate) at_next: bool,
    /// Whether workers act with the target policy, as in Acme, rather than with the policy itself.
    pub(crate) acts_by_target: bool,
    /// The number of critic updates per policy update.
    pub(crate) period: u64,
    /// Noise on the target policy's actions, and its bound.
    pub(crate) target_noise: [f32; 2],
    /// The weight of Q, scaled to a mean magnitude of 1, relative to the squared distance from the recorded actions;
    /// `None` for no imitation (Fujimoto and Gu 2021).
    pub(crate) beside_imitation: Option<f32>,
}

impl PolicyRule {
    /// The rule that Acme's DDPG and D4PG use.
    pub(crate) const ACME: PolicyRule = PolicyRule {
        at_next: true,
        acts_by_target: true,
        period: 1,
        target_noise: [0.0; 2],
        beside_imitation: None,
    };
}

impl Settings {
    /// Checks that all settings are within their ranges.
    pub(crate) fn validate(&self) -> Result<()> {
        self.off_policy.validate()?;
        positive("policy_learning_rate", self.policy_learning_rate)?;
        positive("critic_learning_rate", self.critic_learning_rate)?;
        match self.target_update {
            TargetUpdate::Copy { period } => {
                check("target_update_period", period, period >= 1, "at least 1")?;
            }
            TargetUpdate::Move { tau } => fraction("tau", tau)?,
        }
        let rule = &self.policy;
        check("policy_period", rule.period, rule.period >= 1, "at least 1")?;
        not_negative("target_noise", rule.target_noise[0])?;
        not_negative("target_noise_clip", rule.target_noise[1])?;
        rule.beside_imitation.map_or(Ok(()), |alpha| positive("alpha", alpha))?;
        self.max_action_gradient.map_or(Ok(()), |norm| positive("max_action_gradient", norm))?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", norm))?;
        not_negative("noise", self.noise)?;
        correlation(self.noise_correlation)?;
        layers(&self.hidden)?;
        layers(&self.critic_hidden)
    }

    pub(super) fn policy_layers(&self) -> Layers<'_> {
        Layers { body: Body::LayerNorm, hidden: &self.hidden }
    }

    pub(super) fn critic_layers(&self) -> Layers<'_> {
        Layers { body: Body::LayerNorm, hidden: &self.critic_hidden }
    }

    pub(crate) fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let drawing = |_| Drawing::Noisy { stddev: self.noise };
        let exploration = (self.normalize_observations, self.noise_correlation);
        ContinuousPolicy::create(context, self.policy_layers(), (1, Role::Action), drawing, exploration)
    }
}
