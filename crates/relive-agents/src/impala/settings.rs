//! The settings of agents that learn from fragments as they arrive.

use relive_nn::Adam;
use relive_rl::Result;

use crate::settings::{check, environments, fraction, layers, not_negative, positive, whole};

/// The common settings of IMPALA and APPO.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    /// The number of environments of all workers together.
    pub(super) num_envs: usize,
    /// The number of steps in a fragment.
    pub(super) sequence_length: usize,
    /// The number of fragments in a batch; each fragment comes from one environment.
    pub(super) batch_size: usize,
    /// The number of gradient steps for each batch.
    pub(super) epochs: usize,
    pub(super) discount: f32,
    /// λ of V-trace.
    pub(super) trace_decay: f32,
    /// The clip range of the probability ratio: moving the ratio beyond 1 ± this value gains nothing. `None` for the
    /// plain policy gradient.
    pub(super) clip: Option<f32>,
    pub(super) value_cost: f32,
    pub(super) entropy_cost: f32,
    /// Rewards are clipped to ± this value.
    pub(super) max_abs_reward: Option<f32>,
    pub(super) max_gradient_norm: Option<f32>,
    pub(super) adam: Adam,
    /// Whether the step size decays linearly to 0 over the run.
    pub(super) anneal: bool,
    pub(super) normalize_advantages: bool,
    pub(super) hidden: Vec<usize>,
    /// The number of units of the LSTM after the hidden layers; 0 for no LSTM.
    pub(super) lstm_units: usize,
}

/// The maximum number of steps of a fragment; in practice, fragments have at most a few hundred steps.
const MAX_STEPS: usize = 1 << 16;

impl Settings {
    pub(super) fn validate(&self) -> Result<()> {
        environments(self.num_envs)?;
        let steps = self.sequence_length;
        check("sequence_length", steps, (1..=MAX_STEPS).contains(&steps), "from 1 to 65536")?;
        whole("batch_size", self.batch_size)?;
        whole("epochs", self.epochs)?;
        fraction("discount", self.discount)?;
        fraction("trace_decay", self.trace_decay)?;
        self.clip.map_or(Ok(()), |clip| positive("clip", clip))?;
        not_negative("value_cost", self.value_cost)?;
        not_negative("entropy_cost", self.entropy_cost)?;
        self.max_abs_reward.map_or(Ok(()), |bound| positive("max_abs_reward", bound))?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", norm))?;
        positive("learning_rate", self.adam.learning_rate)?;
        positive("adam_epsilon", self.adam.epsilon)?;
        check("the number of hidden layers", 0, !self.hidden.is_empty(), "at least 1")?;
        layers(&self.hidden)
    }
}
