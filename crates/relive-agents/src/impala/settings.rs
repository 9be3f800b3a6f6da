//! Settings of what learns from fragments that come as they are made, and its plan.

use relive_flow::{Async, Flow, Resubmit};
use relive_nn::Adam;
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Result, RlError, Rollout};

use super::learner::VTraceLearner;
use crate::settings::{check, layers, not_negative, positive, share, whole};

/// The settings that IMPALA and APPO configure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    /// Environments, all workers together.
    pub(super) num_envs: usize,
    /// Steps of a fragment.
    pub(super) sequence_length: usize,
    /// Fragments of one environment each that are learned from together.
    pub(super) batch_size: usize,
    /// Gradient steps for each batch.
    pub(super) epochs: usize,
    pub(super) discount: f32,
    /// λ of V-trace.
    pub(super) trace_decay: f32,
    /// How far the ratio of probabilities may be from 1 until nothing more is gained; none for the plain policy gradient.
    pub(super) clip: Option<f32>,
    pub(super) value_cost: f32,
    pub(super) entropy_cost: f32,
    /// Rewards are clipped to this on either side.
    pub(super) max_abs_reward: Option<f32>,
    pub(super) max_gradient_norm: Option<f32>,
    pub(super) adam: Adam,
    /// Whether the step size falls to 0 over the run.
    pub(super) anneal: bool,
    pub(super) normalize_advantages: bool,
    pub(super) hidden: Vec<usize>,
    /// Units of the LSTM behind the hidden layers; 0 for none.
    pub(super) lstm_units: usize,
}

/// Most steps of a fragment; the longest that are trained on have some hundred.
const MAX_STEPS: usize = 1 << 16;

impl Settings {
    pub(super) fn validate(&self) -> Result<()> {
        whole("num_envs", self.num_envs)?;
        let steps = self.sequence_length;
        check("sequence_length", steps, (1..=MAX_STEPS).contains(&steps), "from 1 to 65536")?;
        whole("batch_size", self.batch_size)?;
        whole("epochs", self.epochs)?;
        share("discount", self.discount)?;
        share("trace_decay", self.trace_decay)?;
        self.clip.map_or(Ok(()), |clip| positive("clip", clip))?;
        not_negative("value_cost", self.value_cost)?;
        not_negative("entropy_cost", self.entropy_cost)?;
        self.max_abs_reward.map_or(Ok(()), |bound| positive("max_abs_reward", bound))?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", norm))?;
        positive("learning_rate", self.adam.learning_rate)?;
        not_negative("adam_epsilon", self.adam.epsilon)?;
        check("the number of hidden layers", 0, !self.hidden.is_empty(), "at least 1")?;
        layers(&self.hidden)
    }
}

/// Fragments of all workers as they come, so many side by side as a batch has, and learning from them.
pub(super) fn plan(settings: &Settings, crew: &Crew) -> Result<Flow<Progress>> {
    let rows = (crew.environments() / crew.workers().max(1)).max(1);
    let fragments = settings.batch_size.div_ceil(rows);
    expect_steps(settings, crew, fragments.saturating_mul(rows))?;
    let learner = crew.learner(VTraceLearner::new(settings, crew)?)?;
    // One thread that acts and learns in turn acts by what it has just learned; others do not wait for it.
    let resubmit = if crew.acts_in_turn() { Resubmit::After } else { Resubmit::Before };
    let made = crew.rollouts(settings.sequence_length)?.gather_async(Async { depth: 1, resubmit })?;
    let batches = made.batch(fragments);
    Ok(batches.try_for_each(Rollout::side_by_side).named("side by side").learn(learner))
}

/// Whether the run is long enough for a batch, of fragments in so many environments, and for a fragment of each worker: a run ends with the batch
/// that reaches its steps, and until then each worker has made a fragment.
fn expect_steps(settings: &Settings, crew: &Crew, rows: usize) -> Result<()> {
    let (length, workers, steps) = (settings.sequence_length, crew.workers(), crew.env_steps());
    let of = |rows: usize| u64::try_from(rows.saturating_mul(length)).unwrap_or(u64::MAX);
    if of(rows) > steps {
        let expected = format!(
            "at most the steps of the run, {steps}: a batch has {} fragments (batch_size {}) of {length} steps (sequence_length); make these smaller, or \
             the run longer",
            rows, settings.batch_size
        );
        return Err(RlError::setting("the number of steps of a batch", of(rows), expected));
    }
    let of_all = of(crew.environments());
    if workers > 1 && of_all > steps {
        let expected = format!(
            "fewer: a fragment of each is {of_all} steps in {} environments, and the run has {steps}; make sequence_length or num_envs smaller, or the run \
             longer",
            crew.environments()
        );
        return Err(RlError::setting("actors", workers, expected));
    }
    Ok(())
}
