//! The settings that these agents share.

use relive_nn::{Adam, RmsProp};
use relive_rl::Result;

use crate::settings::{check, environments, fraction, layers, not_negative, positive, whole};

/// The settings for learning a policy and a value function from rollouts.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The number of environments of all workers together.
    pub num_envs: usize,
    /// The number of steps of a rollout in each environment.
    pub num_steps: usize,
    /// The sizes of the hidden layers of each network.
    pub hidden: Vec<usize>,
    /// The agent's discount γ.
    pub discount: f32,
    /// λ of generalized advantage estimation.
    pub gae_lambda: f32,
    /// The number of passes over each rollout.
    pub epochs: usize,
    /// The number of steps in a minibatch; `None` for the whole rollout.
    pub minibatch_size: Option<usize>,
    /// See [`PpoConfig::clip`](crate::PpoConfig::clip); `None` for the plain policy gradient.
    pub clip: Option<f32>,
    /// The weight of the value loss, the squared error.
    pub value_cost: f32,
    /// The weight of the policy's entropy.
    pub entropy_cost: f32,
    /// The bound on the gradient's norm.
    pub max_gradient_norm: f32,
    /// The optimizer.
    pub optimization: Optimization,
    /// Whether the step size and the clip range decay to 0 over the run.
    pub anneal: bool,
    /// Whether the advantages of a minibatch are normalized to mean 0 and standard deviation 1.
    pub normalize_advantages: bool,
    /// Whether observations are normalized to mean 0 and standard deviation 1, using the statistics so far.
    pub normalize_observations: bool,
    /// Whether rewards are scaled so that discounted returns have a standard deviation of 1, using the statistics so
    /// far.
    pub normalize_rewards: bool,
    /// The target for the estimate of KL(old ‖ new): learning from a rollout stops at 1.5 times this value; `None` for
    /// no bound.
    pub target_kl: Option<f32>,
}

/// An optimizer with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Optimization {
    /// Adam.
    Adam(Adam),
    /// RMSProp.
    RmsProp(RmsProp),
}

impl Optimization {
    /// Returns the initial step size.
    #[must_use]
    pub fn learning_rate(&self) -> f32 {
        match self {
            Optimization::Adam(adam) => adam.learning_rate,
            Optimization::RmsProp(rms_prop) => rms_prop.learning_rate,
        }
    }
}

/// Returns the remaining share of a run, from 1 to 0; always 1 without annealing.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a share")]
pub(crate) fn share_left(anneal: bool, env_steps: u64, budget: u64) -> f32 {
    let done = env_steps as f64 / budget.max(1) as f64;
    if anneal { (1.0 - done).max(0.0) as f32 } else { 1.0 }
}

/// The maximum number of steps of a rollout in each environment; in practice, rollouts have at most a few thousand.
const MAX_STEPS: usize = 1 << 20;

/// The maximum number of steps of a rollout in all environments, for which memory is allocated.
const MAX_ROLLOUT: usize = 1 << 28;

impl Settings {
    /// Checks that all settings are within their ranges.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        environments(self.num_envs)?;
        let steps = self.num_steps;
        check("num_steps", steps, (1..=MAX_STEPS).contains(&steps), "from 1 to 1048576")?;
        let rollout = self.num_envs.saturating_mul(steps);
        check("num_envs * num_steps", rollout, rollout <= MAX_ROLLOUT, "at most 2**28")?;
        whole("epochs", self.epochs)?;
        whole("minibatch_size", self.minibatch_size.unwrap_or(1))?;
        layers(&self.hidden)?;
        fraction("discount", self.discount)?;
        fraction("gae_lambda", self.gae_lambda)?;
        self.clip.map_or(Ok(()), |clip| positive("clip", clip))?;
        not_negative("value_cost", self.value_cost)?;
        not_negative("entropy_cost", self.entropy_cost)?;
        positive("max_gradient_norm", self.max_gradient_norm)?;
        positive("learning_rate", self.optimization.learning_rate())?;
        self.target_kl.map_or(Ok(()), |bound| positive("target_kl", bound))
    }
}

#[cfg(test)]
mod tests {
    use relive_rl::Agent;

    use crate::PpoConfig;

    #[test]
    fn rollouts_that_no_memory_holds_are_refused() {
        let refused = |num_envs, num_steps| {
            PpoConfig { num_envs, num_steps, ..PpoConfig::default() }.validate().unwrap_err().to_string()
        };
        let expected = "num_steps is 4611686018427387904, but it must be from 1 to 1048576";
        assert_eq!(refused(1, 1 << 62), expected);
        let expected = "num_envs * num_steps is 268443648, but it must be at most 2**28";
        assert_eq!(refused((1 << 15) + 1, 1 << 13), expected);
        assert!(refused(1 << 17, 1).starts_with("num_envs is 131072"));
        assert!(
            PpoConfig { num_envs: 1 << 8, num_steps: 1 << 20, ..PpoConfig::default() }.validate().is_ok()
        );
    }
}
