//! What agents with a deterministic policy have in common, and what they differ in.

use relive_nn::Key;
use relive_rl::{Policy, Result, Seat};

use crate::continuous::{Body, ContinuousPolicy, Drawing, Plan, Returns, Role, Spaces, TargetUpdate};
use crate::off_policy::OffPolicy;
use crate::settings::{check, correlation, layers, not_negative, positive, share};

/// Settings of an agent with a deterministic policy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) off_policy: OffPolicy,
    pub(crate) policy_learning_rate: f32,
    pub(crate) critic_learning_rate: f32,
    /// Critics; the least of their values is what actions that follow are worth. The policy climbs the value of the
    /// first.
    pub(crate) critics: usize,
    pub(crate) returns: Returns,
    pub(crate) target_update: TargetUpdate,
    pub(crate) policy: PolicyRule,
    /// Bound on the length of ∂Q/∂a of each sample.
    pub(crate) max_action_gradient: Option<f32>,
    /// Bounds on the norms of the gradients of policy and critics.
    pub(crate) max_gradient_norm: Option<f32>,
    /// Noise of the actions that are taken.
    pub(crate) noise: f32,
    pub(crate) noise_correlation: f32,
    pub(crate) normalize_observations: bool,
    pub(crate) hidden: Vec<usize>,
    pub(crate) critic_hidden: Vec<usize>,
}

/// How the policy learns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PolicyRule {
    /// Where: at the observations that follow, as in Acme, or at those before.
    pub(crate) at_next: bool,
    /// Whether workers act by the target policy, as in Acme, or by the policy itself.
    pub(crate) acts_by_target: bool,
    /// Steps of the critics for one of the policy.
    pub(crate) period: u64,
    /// Noise of actions that follow, and the bound on it.
    pub(crate) target_noise: [f32; 2],
    /// How much Q, scaled to a mean size of 1, counts beside the squared distance from the actions that were taken;
    /// none: these do not count (Fujimoto and Gu 2021).
    pub(crate) beside_imitation: Option<f32>,
}

impl PolicyRule {
    /// That of Acme's DDPG and D4PG.
    pub(crate) const ACME: PolicyRule = PolicyRule {
        at_next: true,
        acts_by_target: true,
        period: 1,
        target_noise: [0.0; 2],
        beside_imitation: None,
    };
}

impl Settings {
    /// Whether all are within their ranges.
    pub(crate) fn validate(&self) -> Result<()> {
        self.off_policy.validate()?;
        positive("policy_learning_rate", self.policy_learning_rate)?;
        positive("critic_learning_rate", self.critic_learning_rate)?;
        match self.target_update {
            TargetUpdate::Copy { period } => {
                check("target_update_period", period, period >= 1, "at least 1")?;
            }
            TargetUpdate::Move { tau } => share("tau", tau)?,
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

    pub(super) fn policy_plan(&self) -> Plan<'_> {
        Plan { body: Body::LayerNorm, hidden: &self.hidden }
    }

    pub(super) fn critic_plan(&self) -> Plan<'_> {
        Plan { body: Body::LayerNorm, hidden: &self.critic_hidden }
    }

    pub(crate) fn seated(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>> {
        let spaces = Spaces::of(seat.spec)?;
        let dimensions = spaces.dimensions();
        let network = self.policy_plan().policy(&spaces, dimensions, Role::Action, Key::from_seed(0))?;
        let exploration = (self.normalize_observations, self.noise_correlation);
        let drawing = Drawing::Noisy { stddev: self.noise };
        Ok(Box::new(ContinuousPolicy::new(seat, (spaces, network), drawing, exploration)))
    }
}
