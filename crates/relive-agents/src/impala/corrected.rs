//! A batch of fragments, and its correction by V-trace.

use relive_env::TimeStep;
use relive_nn::LstmState;
use relive_nn::losses::{VTraceClip, vtrace};
use relive_rl::{Result, Rollout};

use super::network::VTraceNetwork;
use super::policy::Extras;
use super::settings::Settings;
use crate::actor_critic::Head;
use crate::torso::ObservationInputs;

/// A batch of fragments as rows of numbers, in time-major order and in reused memory.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    pub(super) steps: usize,
    pub(super) rows: usize,
    /// `[(steps + 1) · rows, width]`
    pub(super) observations: ObservationInputs,
    /// Whether an episode starts with the observation, `[(steps + 1) · rows]`.
    pub(super) starts: Vec<bool>,
    /// The recurrent state before the first step, `[rows, units]`.
    pub(super) state: LstmState,
    /// The values of actions that are choices, `[steps · rows, choices]`; empty for continuous actions.
    pub(super) choices: Vec<usize>,
    /// Continuous actions as drawn, `[steps · rows, numbers]`; empty for choices.
    pub(super) drawn: Vec<f32>,
    /// The log-probabilities with which the actions were drawn.
    pub(super) log_probabilities: Vec<f32>,
    pub(super) rewards: Vec<f32>,
    /// The environment's discounts times the agent's.
    pub(super) discounts: Vec<f32>,
    /// Cells from which the agent can learn.
    pub(super) learnable: Vec<usize>,
}

/// The targets of values and policy, cell by cell.
#[derive(Debug, Default)]
pub(super) struct Corrected {
    /// The V-trace targets vs for the values.
    pub(super) returns: Vec<f32>,
    /// `r + γ·(λ·vs′ + (1 − λ)·V′) − V`, times the clipped probability ratio if the loss itself has no ratio.
    pub(super) advantages: Vec<f32>,
}

impl Fragments {
    /// Replaces the contents with a batch.
    #[expect(clippy::cast_possible_truncation, reason = "networks learn in float32")]
    pub(super) fn fill(
        &mut self,
        network: &VTraceNetwork,
        rollout: &Rollout,
        settings: &Settings,
    ) -> Result<()> {
        (self.steps, self.rows) = (rollout.steps, rollout.rows);
        self.observations.fill(&network.torso, &rollout.observations);
        self.starts.clear();
        // Where an episode started, the policy cleared its memory before the first step.
        self.starts.resize(rollout.rows, false);
        self.starts.extend(rollout.answers.iter().map(TimeStep::first));
        let places = Extras::of(network);
        if let Some(memory) = network.memory() {
            let (cells, hidden) = (places.states, places.states + 1);
            let (cells, hidden) = (rollout.extras.leaf::<f32>(cells)?, rollout.extras.leaf::<f32>(hidden)?);
            let first = |all: &[f32]| all[..rollout.rows * memory.units()].to_vec();
            self.state = LstmState { cell: first(cells), hidden: first(hidden) };
        }
        self.drawn.clear();
        match &network.head {
            Head::Categorical(choices) => choices.read(&rollout.actions, &mut self.choices),
            Head::Normal { .. } => self.drawn.extend_from_slice(rollout.extras.leaf::<f32>(0)?),
        }
        self.log_probabilities.clear();
        self.log_probabilities.extend_from_slice(rollout.extras.leaf::<f32>(places.log_probability)?);
        let bound = settings.max_abs_reward.unwrap_or(f32::INFINITY);
        let rewards = rollout.answers.iter().map(|answer| (answer.reward as f32).clamp(-bound, bound));
        self.rewards.clear();
        self.rewards.extend(rewards);
        let discounts = rollout.answers.iter().map(|answer| settings.discount * answer.discount as f32);
        self.discounts.clear();
        self.discounts.extend(discounts);
        self.learnable.clear();
        self.learnable.extend(rollout.learnable());
        Ok(())
    }

    /// Computes V-trace for each row, from the values of all observations and the current log-probabilities of the
    /// actions.
    ///
    /// A cell with a reset ends the trace, because no action was taken there and its observation is the last
    /// observation of the previous episode.
    pub(super) fn corrected(&self, values: &[f32], now: &[f32], settings: &Settings, out: &mut Corrected) {
        let Fragments { steps, rows, .. } = *self;
        out.returns.resize(steps * rows, 0.0);
        out.advantages.resize(steps * rows, 0.0);
        let clip = VTraceClip { lambda: settings.trace_decay, ..VTraceClip::default() };
        for row in 0..rows {
            let cells = || (row..steps * rows).step_by(rows);
            let ratio = |cell: usize| match self.starts[cell + rows] {
                true => 0.0,
                false => (now[cell] - self.log_probabilities[cell]).exp(),
            };
            let of_row: Vec<f32> = (row..(steps + 1) * rows).step_by(rows).map(|cell| values[cell]).collect();
            let pick = |numbers: &[f32]| -> Vec<f32> { cells().map(|cell| numbers[cell]).collect() };
            let ratios: Vec<f32> = cells().map(ratio).collect();
            let trace = vtrace(&of_row, &pick(&self.rewards), &pick(&self.discounts), &ratios, clip);
            for (time, cell) in cells().enumerate() {
                out.returns[cell] = of_row[time] + trace.errors[time];
                out.advantages[cell] = match settings.clip {
                    Some(_) => trace.q_estimates[time] - of_row[time],
                    None => trace.pg_advantages[time],
                };
            }
        }
    }
}
