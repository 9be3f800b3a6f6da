//! A learned model of the environment.

use relive_env::TimeStep;
use relive_nn::{Activation, Layout, Network, Params, Scratch};
use relive_rl::Result;

use super::loss::share_of;
use super::model::Model;
use crate::settings;

/// Predictions besides the observation: the reward, and the logit of the probability that the episode continues.
const SCALARS: usize = 2;

/// An episode counts as over if the probability that it continues is below this value.
const CONTINUES: f32 = 0.5;

/// A network that maps an observation and an action to the next observation, the reward, and whether the episode
/// continues.
#[derive(Debug, Clone)]
pub(super) struct Dynamics {
    pub(super) network: Network,
    width: usize,
    actions: usize,
}

/// The consequences of actions, row by row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcomes<'a> {
    pub(super) next_observations: &'a [f32],
    pub(super) rewards: &'a [f32],
    /// The environment's discounts.
    pub(super) discounts: &'a [f32],
}

impl Dynamics {
    pub(super) fn new(
        layout: &mut Layout,
        (width, actions): (usize, usize),
        hidden: &[usize],
    ) -> Result<Dynamics> {
        settings::fits(width.saturating_add(actions), hidden, width.saturating_add(SCALARS))?;
        let network = Network::builder(layout, "model", width + actions);
        let network = network.mlp(hidden, Activation::Relu).linear(width + SCALARS).build();
        Ok(Dynamics { network, width, actions })
    }

    /// Writes rows of inputs, each of which consists of an observation and the one-hot encoded action.
    pub(super) fn inputs(&self, observations: &[f32], actions: &[usize], inputs: &mut Vec<f32>) {
        inputs.clear();
        for (observation, action) in observations.chunks_exact(self.width).zip(actions) {
            inputs.extend_from_slice(observation);
            inputs.extend((0..self.actions).map(|place| f32::from(u8::from(place == *action))));
        }
    }

    /// Returns the loss and its gradient. The loss is the mean over rows of the summed squared errors of the
    /// observation, the squared error of the reward, and the cross-entropy of whether the episode continues.
    pub(super) fn loss(&self, outputs: &[f32], seen: Outcomes<'_>, by_outputs: &mut [f32]) -> f32 {
        let (share, width) = (share_of(seen.rewards.len()), self.width + SCALARS);
        let rows = outputs.chunks_exact(width).zip(by_outputs.chunks_exact_mut(width));
        let wanted = seen.next_observations.chunks_exact(self.width).zip(seen.rewards).zip(seen.discounts);
        let mut loss = 0.0;
        for ((row, by_row), ((next, reward), discount)) in rows.zip(wanted) {
            for ((output, by), wanted) in row.iter().zip(by_row.iter_mut()).zip(next.iter().chain([reward])) {
                let error = output - wanted;
                loss += share * error * error;
                *by = 2.0 * share * error;
            }
            let logit = row[width - 1];
            // −d ln σ(x) − (1 − d) ln(1 − σ(x)), without overflow.
            loss += share * (logit.max(0.0) - logit * discount + (-logit.abs()).exp().ln_1p());
            by_row[width - 1] = share * (sigmoid(logit) - discount);
        }
        loss
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// A learned model that imagines an episode from an observation.
pub(super) struct ImaginedEpisode<'a> {
    pub(super) dynamics: &'a Dynamics,
    pub(super) params: &'a Params,
    pub(super) memory: &'a mut Buffers,
}

/// Reused memory.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) observation: Vec<f32>,
    inputs: Vec<f32>,
    scratch: Scratch,
}

impl Model for ImaginedEpisode<'_> {
    type State = Vec<f32>;

    fn save(&mut self) -> Result<Vec<f32>> {
        Ok(self.memory.observation.clone())
    }

    fn restore(&mut self, state: &Vec<f32>) -> Result<()> {
        self.memory.observation.clone_from(state);
        Ok(())
    }

    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<TimeStep> {
        let Buffers { observation: now, inputs, scratch } = &mut *self.memory;
        self.dynamics.inputs(now, &[action], inputs);
        let outputs = self.dynamics.network.infer(self.params, inputs, scratch);
        let (next, scalars) = outputs.split_at(self.dynamics.width);
        now.copy_from_slice(next);
        observation.copy_from_slice(next);
        let (reward, continues) = (f64::from(scalars[0]), sigmoid(scalars[1]));
        Ok(match continues < CONTINUES {
            true => TimeStep::termination(reward),
            false => TimeStep { discount: f64::from(continues), ..TimeStep::transition(reward) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_targets_of_a_row_match_a_hand_computation() {
        let dynamics = Dynamics::new(&mut Layout::new(), (2, 3), &[4]).unwrap();
        let mut inputs = Vec::new();
        dynamics.inputs(&[0.5, 0.25], &[1], &mut inputs);
        assert_eq!(inputs, [0.5, 0.25, 0.0, 1.0, 0.0]);
        let seen = Outcomes { next_observations: &[1.0, 0.0], rewards: &[2.0], discounts: &[1.0] };
        let mut by = [0.0; 4];
        let loss = dynamics.loss(&[0.5, 1.0, 1.0, 0.0], seen, &mut by);
        assert!((loss - (0.25 + 1.0 + 1.0 + 2.0_f32.ln())).abs() < 1e-6, "{loss}");
        assert_eq!(by, [-1.0, 2.0, -2.0, -0.5]);
    }
}
