//! The contents of a rollout, as rows of numbers.

use relive_nn::{Params, Scratch};
use relive_rl::{Result, Rollout};

use super::advantages::{Advantages, generalized_advantages};
use super::head::Head;
use super::network::ActorCritic;

/// Everything that a learner needs from a rollout, cell by cell, in reused memory.
#[derive(Debug, Default, Clone)]
pub(super) struct Experience {
    /// Observations as network inputs, `[(steps + 1) · rows, width]`.
    pub(super) rows: Vec<f32>,
    /// The values of actions that are choices, `[steps · rows, choices]`; empty for continuous actions.
    pub(super) choices: Vec<usize>,
    /// Continuous actions as drawn, `[steps · rows, numbers]`; empty for choices.
    pub(super) drawn: Vec<f32>,
    pub(super) log_probabilities: Vec<f32>,
    pub(super) found: Advantages,
    /// Cells from which the agent can learn.
    pub(super) learnable: Vec<usize>,
    scratch: Scratch,
}

impl Experience {
    /// Replaces the contents with a rollout and these rewards.
    pub(super) fn fill(
        &mut self,
        network: &ActorCritic,
        params: &Params,
        (rollout, rewards): (&Rollout, &[f32]),
        discounts: (f32, f32),
    ) -> Result<()> {
        network.rows(params, &rollout.observations, &mut self.rows);
        self.drawn.clear();
        let unclipped = match &network.head {
            Head::Categorical(choices) => {
                choices.read(&rollout.actions, &mut self.choices);
                0
            }
            Head::Normal { .. } => {
                self.drawn.extend_from_slice(rollout.extras.leaf::<f32>(0)?);
                1
            }
        };
        self.log_probabilities.clear();
        self.log_probabilities.extend_from_slice(rollout.extras.leaf::<f32>(unclipped)?);
        let values = rollout.extras.leaf::<f32>(unclipped + 1)?;
        let width = network.value.inputs();
        let last = &self.rows[rollout.steps * rollout.rows * width..];
        let last_values = network.value.infer(params, last, &mut self.scratch);
        self.found = generalized_advantages(rollout, (rewards, values, last_values), discounts);
        self.learnable.clear();
        self.learnable.extend(rollout.learnable());
        Ok(())
    }
}
