//! The losses of a DQN agent: over values, or over distributions of returns.

use relive_nn::losses::{self, BatchLoss, Munchausen, Selected, Support};

use super::config::{DqnConfig, DqnLoss};
use super::implicit::Implicit;
use crate::misfit::Misfits;

/// The weight of the values themselves in [`DqnLoss::RegularizedQ`].
const REGULARIZER: f32 = 0.1;

/// A loss with its settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    kind: DqnLoss,
    support: Support,
    /// Fractions drawn for each transition.
    samples: usize,
}

/// The targets of the outputs. `taus` are the fractions of the quantiles, if they are random.
#[derive(Debug, Clone, Copy)]
pub(super) struct Targets<'a> {
    pub(super) targets: &'a [f32],
    pub(super) taus: &'a [f32],
    pub(super) huber: f32,
}

/// The inputs of the targets. `next` are the outputs for the next observations; `before` are the target network's
/// outputs for the first observations.
pub(super) struct TargetInputs<'a> {
    pub(super) rewards: &'a [f32],
    pub(super) discounts: &'a [f32],
    pub(super) actions: &'a [usize],
    pub(super) before: &'a [f32],
    pub(super) next_target: &'a [f32],
    pub(super) next_online: &'a [f32],
}

impl Rule {
    /// Returns a rule from checked settings.
    pub(super) fn new(config: &DqnConfig) -> Rule {
        let [least, most] = config.value_range;
        let support = Support::new(least, most, config.atoms);
        Rule { kind: config.loss, support, samples: config.quantile_samples }
    }

    /// Returns the number of network outputs per action for choosing actions.
    pub(super) fn atoms(self) -> usize {
        match self.kind {
            DqnLoss::DoubleQ | DqnLoss::QLearning | DqnLoss::RegularizedQ | DqnLoss::Munchausen => 1,
            DqnLoss::Categorical | DqnLoss::Quantile => self.support.atoms(),
            DqnLoss::ImplicitQuantile => Implicit::fractions(),
        }
    }

    /// Returns the number of fractions drawn for each transition; 0 if the quantiles are fixed.
    pub(super) fn drawn(self) -> usize {
        if self.kind == DqnLoss::ImplicitQuantile { self.samples } else { 0 }
    }

    /// Returns whether targets need the target network's outputs for the first observations.
    pub(super) fn needs_previous(self) -> bool {
        self.kind == DqnLoss::Munchausen
    }

    /// Returns the values of the actions, from the network's outputs for one observation.
    #[expect(clippy::cast_precision_loss, reason = "atoms are few")]
    pub(super) fn values<'a>(self, outputs: &'a [f32], values: &'a mut Vec<f32>) -> &'a [f32] {
        let rows = outputs.chunks_exact(self.atoms());
        values.clear();
        match self.kind {
            DqnLoss::DoubleQ | DqnLoss::QLearning | DqnLoss::RegularizedQ | DqnLoss::Munchausen => {
                return outputs;
            }
            DqnLoss::Categorical => values.extend(rows.map(|row| self.support.mean(row))),
            DqnLoss::Quantile | DqnLoss::ImplicitQuantile => {
                values.extend(rows.map(|row| row.iter().sum::<f32>() / row.len() as f32));
            }
        }
        values
    }

    /// Logs that a return is beyond the atoms of a categorical distribution.
    pub(super) fn tell_range(self, misfits: &mut Misfits, evidence: &TargetInputs<'_>) {
        let TargetInputs { rewards, discounts, next_target, .. } = *evidence;
        if self.kind == DqnLoss::Categorical
            && let Some(first) = next_target.get(..next_target.len() / rewards.len().max(1))
        {
            let values = first.chunks_exact(self.atoms()).map(|row| self.support.mean(row));
            let best = values.fold(f32::NEG_INFINITY, f32::max);
            misfits.tell_range(self.support, (rewards, discounts), best);
        }
    }

    /// Returns the targets of the outputs for the actions taken.
    pub(super) fn targets(self, evidence: &TargetInputs<'_>) -> Vec<f32> {
        let TargetInputs { rewards, discounts, actions, before, next_target, next_online } = *evidence;
        match self.kind {
            DqnLoss::DoubleQ => losses::double_q_targets(rewards, discounts, next_target, next_online),
            DqnLoss::QLearning | DqnLoss::RegularizedQ => {
                losses::double_q_targets(rewards, discounts, next_target, next_target)
            }
            DqnLoss::Munchausen => {
                let numbers = (rewards, discounts);
                losses::munchausen_targets(Munchausen::default(), numbers, actions, before, next_target)
            }
            DqnLoss::Categorical => {
                let support = self.support;
                losses::categorical_double_q_targets(support, rewards, discounts, next_target, next_online)
            }
            DqnLoss::Quantile => {
                losses::quantile_targets(rewards, discounts, self.atoms(), next_target, next_online)
            }
            DqnLoss::ImplicitQuantile => {
                losses::quantile_targets(rewards, discounts, self.samples, next_target, next_online)
            }
        }
    }

    /// Computes the loss, and its gradient with respect to the outputs.
    pub(super) fn loss(
        self,
        outputs: &[f32],
        selected: Selected<'_>,
        Targets { targets, taus, huber }: Targets<'_>,
        by_outputs: &mut [f32],
    ) -> BatchLoss {
        match self.kind {
            DqnLoss::DoubleQ | DqnLoss::Munchausen => {
                losses::q_loss(outputs, selected, targets, huber, by_outputs)
            }
            DqnLoss::QLearning => squared_loss(outputs, selected, targets, (1.0, 0.0), by_outputs),
            DqnLoss::RegularizedQ => squared_loss(outputs, selected, targets, (0.5, REGULARIZER), by_outputs),
            DqnLoss::Categorical => {
                losses::categorical_loss(self.support, outputs, selected, targets, by_outputs)
            }
            DqnLoss::Quantile => losses::quantile_loss(outputs, selected, targets, huber, by_outputs),
            DqnLoss::ImplicitQuantile => {
                losses::implicit_quantile_loss(outputs, taus, selected, targets, huber, by_outputs)
            }
        }
    }
}

/// Computes mean wᵢ·(a·(targetᵢ − qᵢ)² + b·qᵢ) over the values qᵢ of the actions taken, and its gradient with respect
/// to the outputs. The rows of the result are the errors.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
fn squared_loss(
    outputs: &[f32],
    selected: Selected<'_>,
    targets: &[f32],
    (of_squares, of_values): (f32, f32),
    by_outputs: &mut [f32],
) -> BatchLoss {
    by_outputs.fill(0.0);
    let (batch, mut found) = (targets.len().max(1), BatchLoss { loss: 0.0, rows: Vec::new() });
    let actions = outputs.len() / batch;
    for ((row, target), weight) in targets.iter().enumerate().zip(selected.weights) {
        let place = row * actions + selected.actions[row];
        let (value, weight) = (outputs[place], weight / batch as f32);
        let error = target - value;
        found.loss += weight * (of_squares * error * error + of_values * value);
        by_outputs[place] = weight * (of_values - 2.0 * of_squares * error);
        found.rows.push(error);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squared_losses_match_a_hand_computation() {
        let selected = Selected { actions: &[1, 0], weights: &[1.0, 0.5] };
        let (outputs, targets, mut by) = ([9.0, 2.0, -1.0, 9.0], [3.0, 1.0], [7.0; 4]);
        let found = squared_loss(&outputs, selected, &targets, (1.0, 0.0), &mut by);
        assert_eq!((found.loss, &found.rows[..], by), (1.5, &[1.0, 2.0][..], [0.0, -1.0, -1.0, 0.0]));
        let found = squared_loss(&outputs, selected, &targets, (0.5, 0.1), &mut by);
        assert!((found.loss - 0.825).abs() < 1e-6, "{found:?}");
        assert_eq!(by, [0.0, -0.45, -0.475, 0.0]);
    }
}
