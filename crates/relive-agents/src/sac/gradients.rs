//! The gradients of critics and policy.

use relive_nn::{Network, Params, Scratch, Stream};
use relive_rl::plan::Transitions;

use crate::continuous::{
    ActionGradients, ActionValues, CriticReduction, Critics, TanhNormal, draw, join, subset,
};

/// Draws the next actions of a batch, and computes their values with the critics.
#[derive(Debug)]
pub(super) struct NextActionSampler {
    pub(super) stream: Stream,
    /// The number of critics that determine the target. If it is less than the number of all critics, these critics are
    /// drawn at random.
    of_target: usize,
    scratch: Scratch,
    next: NextActions,
}

/// The next actions of a batch, and their values.
#[derive(Debug, Default)]
pub(super) struct NextActions {
    drawn: TanhNormal,
    /// The numbers of the critics that determine the target.
    chosen: Vec<usize>,
}

/// Computes the gradient of the critics.
#[derive(Debug, Default)]
pub(super) struct CriticGradient {
    valuing: ActionValues,
    rows: Vec<f32>,
    next_rows: Vec<f32>,
    targets: Vec<f32>,
}

/// Computes the gradient of the policy.
#[derive(Debug)]
pub(super) struct PolicyGradient {
    pub(super) stream: Stream,
    counts: CriticReduction,
    drawn: TanhNormal,
    rows: Vec<f32>,
    climbing: ActionGradients,
}

/// The inputs of both gradients.
pub(super) struct GradientInputs<'a> {
    pub(super) dimensions: usize,
    pub(super) batch: &'a Transitions,
    pub(super) policy: (&'a Network, &'a Params),
    pub(super) critics: (&'a Critics, &'a Params),
    pub(super) temperature: f32,
}

impl NextActionSampler {
    pub(super) fn new(stream: Stream, of_target: usize) -> NextActionSampler {
        NextActionSampler { stream, of_target, scratch: Scratch::default(), next: NextActions::default() }
    }

    /// Draws actions in the last states of the batch.
    pub(super) fn draw(&mut self, seen: &GradientInputs<'_>) -> &NextActions {
        let Self { stream, of_target, scratch, next: NextActions { drawn, chosen } } = self;
        let ((policy, params), (critics, _)) = (seen.policy, seen.critics);
        let outputs = policy.infer(params, &seen.batch.next_observations, scratch);
        drawn.draw(outputs, seen.dimensions, || draw(stream));
        subset(critics.networks.len(), *of_target, stream, chosen);
        &self.next
    }
}

impl CriticGradient {
    /// Computes half the mean squared error, summed over all critics, and its gradient. `next` is called when the next
    /// actions are needed; if it returns `None`, so does this function.
    pub(super) fn find<'n>(
        &mut self,
        seen: &GradientInputs<'_>,
        target: &Params,
        next: impl FnOnce() -> Option<&'n NextActions>,
        gradient: &mut [f32],
    ) -> Option<f32> {
        let Self { valuing, rows, next_rows, targets } = self;
        let GradientInputs { batch, dimensions, critics: (critics, params), .. } = *seen;
        join(&batch.observations, &batch.actions, dimensions, rows);
        let targets = || {
            let NextActions { drawn, chosen } = next()?;
            join(&batch.next_observations, &drawn.actions, dimensions, next_rows);
            let values = valuing.least(critics, target, next_rows, chosen.iter().copied());
            soft_targets((&batch.rewards, &batch.discounts), values, drawn, seen.temperature, targets);
            Some(&targets[..])
        };
        critics.loss_towards(params, rows, targets, gradient)
    }
}

impl PolicyGradient {
    pub(super) fn new(stream: Stream, counts: CriticReduction) -> PolicyGradient {
        let (drawn, climbing) = (TanhNormal::default(), ActionGradients::default());
        PolicyGradient { stream, counts, drawn, rows: Vec::new(), climbing }
    }

    /// Returns the policy's loss and its gradient, and the mean of log π.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    pub(super) fn find(&mut self, seen: &GradientInputs<'_>, gradient: &mut [f32]) -> (f32, f32) {
        let Self { stream, counts, drawn, rows, climbing } = self;
        let GradientInputs {
            batch,
            dimensions,
            policy: (policy, policy_params),
            critics: (critics, params),
            ..
        } = *seen;
        let loss =
            policy.gradient_into(policy_params, &batch.observations, gradient, |outputs, by_outputs| {
                drawn.draw(outputs, dimensions, || draw(stream));
                join(&batch.observations, &drawn.actions, dimensions, rows);
                let loss = climbing.find(critics, params, (rows, dimensions), *counts);
                drawn.pull_back(outputs, &climbing.by_actions, seen.temperature, by_outputs);
                loss
            });
        let sum: f32 = drawn.log_probabilities.iter().sum();
        let log_probability = sum / drawn.log_probabilities.len().max(1) as f32;
        (loss + seen.temperature * log_probability, log_probability)
    }
}

/// Computes the targets of the critics: r + γ·(min Q′ − α·log π).
fn soft_targets(
    (rewards, discounts): (&[f32], &[f32]),
    next_values: &[f32],
    next: &TanhNormal,
    temperature: f32,
    targets: &mut Vec<f32>,
) {
    targets.clear();
    for (row, log_probability) in next.log_probabilities.iter().enumerate() {
        let value = next_values[row] - temperature * log_probability;
        targets.push(rewards[row] + discounts[row] * value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_include_entropy() {
        let mut next = TanhNormal::default();
        next.log_probabilities.push(-1.0);
        let mut targets = Vec::new();
        soft_targets((&[0.5], &[0.9]), &[1.0], &next, 0.1, &mut targets);
        assert!((targets[0] - (0.5 + 0.9 * 1.1)).abs() < 1e-6);
    }
}
