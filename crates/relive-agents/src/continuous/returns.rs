//! How a critic represents returns.

use relive_nn::losses::{Selected, Support, categorical_loss, categorical_targets, softmax};

use crate::misfit::Misfits;

/// How a critic represents the returns of an action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Returns {
    /// As their mean, learned with half the squared error.
    Value,
    /// As their distribution over atoms, in logits, learned with the cross entropy to the projected target (Bellemare
    /// et al. 2017).
    Categorical(Support),
}

/// Creates a distribution over evenly spaced atoms; the settings have already been checked.
pub(crate) fn categorical([least, most]: [f32; 2], atoms: usize) -> Returns {
    Returns::Categorical(Support::new(least, most, atoms))
}

impl Returns {
    /// Returns the number of outputs of a critic.
    pub(crate) fn outputs(self) -> usize {
        match self {
            Self::Value => 1,
            Self::Categorical(support) => support.atoms(),
        }
    }

    /// Returns the mean return of each row.
    pub(crate) fn values<'a>(self, outputs: &'a [f32], values: &'a mut Vec<f32>) -> &'a [f32] {
        let Self::Categorical(support) = self else { return outputs };
        values.clear();
        values.extend(outputs.chunks_exact(support.atoms()).map(|row| support.mean(row)));
        values
    }

    /// Computes the target `r + γ·Z`, where `next` are the outputs for the next state and action.
    pub(crate) fn targets(
        self,
        (rewards, discounts): (&[f32], &[f32]),
        next: &[f32],
        targets: &mut Vec<f32>,
    ) {
        targets.clear();
        match self {
            Self::Value => {
                let rows = rewards.iter().zip(discounts).zip(next);
                targets.extend(rows.map(|((reward, discount), value)| reward + discount * value));
            }
            Self::Categorical(support) => {
                targets.extend(categorical_targets(support, rewards, discounts, next));
            }
        }
    }

    /// Logs that a return is beyond the atoms, where `next` are the outputs for the next state and action.
    pub(crate) fn tell_range(self, misfits: &mut Misfits, earned: (&[f32], &[f32]), next: &[f32]) {
        if let Self::Categorical(support) = self
            && let Some(first) = next.get(..support.atoms())
        {
            misfits.tell_range(support, earned, support.mean(first));
        }
    }

    /// Combines several samples for each state, where `outputs` is `[samples, batch, outputs]`. Computes the value of
    /// each sample, and the combined outputs: the mean of values or the mixture of distributions.
    #[expect(clippy::cast_precision_loss, reason = "samples are few")]
    pub(crate) fn sampled(self, outputs: &[f32], samples: usize, outputs_of_samples: &mut SampledOutputs) {
        let SampledOutputs { values, averaged, probabilities } = outputs_of_samples;
        let parts = match self {
            Self::Value => outputs,
            Self::Categorical(support) => {
                softmax(outputs, support.atoms(), probabilities);
                probabilities
            }
        };
        values.clear();
        match self {
            Self::Value => values.extend_from_slice(outputs),
            Self::Categorical(support) => {
                let atoms: Vec<f32> = (0..support.atoms()).map(|atom| support.atom(atom)).collect();
                let mean = |row: &[f32]| row.iter().zip(&atoms).map(|(mass, atom)| mass * atom).sum::<f32>();
                values.extend(parts.chunks_exact(support.atoms()).map(mean));
            }
        }
        let each = outputs.len() / samples.max(1);
        averaged.clear();
        averaged.resize(each, 0.0);
        for sample in parts.chunks_exact(each.max(1)) {
            averaged.iter_mut().zip(sample).for_each(|(sum, part)| *sum += part / samples as f32);
        }
        if let Self::Categorical(_) = self {
            // Logits whose softmax equals these probabilities.
            averaged.iter_mut().for_each(|mass| *mass = mass.max(f32::MIN_POSITIVE).ln());
        }
    }

    /// Returns the mean loss of a batch, and its gradient with respect to the outputs.
    pub(crate) fn loss(self, outputs: &[f32], targets: &[f32], by_outputs: &mut [f32]) -> f32 {
        match self {
            Self::Value => squared_errors(outputs, targets, by_outputs),
            Self::Categorical(support) => {
                let batch = outputs.len() / support.atoms();
                let selected = Selected { actions: &vec![0; batch], weights: &vec![1.0; batch] };
                categorical_loss(support, outputs, selected, targets, by_outputs).loss
            }
        }
    }

    /// Computes the gradient with respect to the outputs, given the gradient with respect to their means.
    pub(crate) fn pull_back(self, outputs: &[f32], by_values: &[f32], by_outputs: &mut [f32]) {
        let Self::Categorical(support) = self else { return by_outputs.copy_from_slice(by_values) };
        let (atoms, mut masses) = (support.atoms(), Vec::new());
        softmax(outputs, atoms, &mut masses);
        let rows = masses.chunks_exact(atoms).zip(by_outputs.chunks_exact_mut(atoms));
        for ((masses, by_logits), by_value) in rows.zip(by_values) {
            let mean: f32 = masses.iter().enumerate().map(|(atom, mass)| mass * support.atom(atom)).sum();
            for (atom, (by_logit, mass)) in by_logits.iter_mut().zip(masses).enumerate() {
                *by_logit = by_value * mass * (support.atom(atom) - mean);
            }
        }
    }
}

/// The combined outputs of several samples, in reused memory.
#[derive(Debug, Default)]
pub(crate) struct SampledOutputs {
    /// The value of each sample, `[samples, batch]`.
    pub(crate) values: Vec<f32>,
    /// The combined outputs, `[batch, outputs]`.
    pub(crate) averaged: Vec<f32>,
    probabilities: Vec<f32>,
}

/// Computes half the mean squared error of a critic, and its gradient with respect to the values.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
fn squared_errors(values: &[f32], targets: &[f32], by_values: &mut [f32]) -> f32 {
    let count = values.len().max(1) as f32;
    let mut loss = 0.0;
    for ((value, target), by_value) in values.iter().zip(targets).zip(by_values) {
        let error = value - target;
        loss += 0.5 * error * error;
        *by_value = error / count;
    }
    loss / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution() -> Returns {
        Returns::Categorical(Support::new(-1.0, 1.0, 3))
    }

    #[test]
    fn losses_and_targets_match_the_formulas() {
        let (mut by, mut targets) = ([0.0; 2], Vec::new());
        assert_eq!((Returns::Value.loss(&[1.0, 2.0], &[0.0, 4.0], &mut by), by), (1.25, [0.5, -1.0]));
        Returns::Value.targets((&[0.5], &[0.9]), &[2.0], &mut targets);
        assert!((targets[0] - 2.3).abs() < 1e-6);
        // All probability mass at 0 moves to 0.5, halfway between two atoms.
        distribution().targets((&[0.5], &[0.9]), &[-50.0, 0.0, -50.0], &mut targets);
        assert!(
            targets.iter().zip([0.0, 0.5, 0.5]).all(|(got, want)| (got - want).abs() < 1e-6),
            "{targets:?}"
        );
        let mut by = [0.0; 3];
        let loss = distribution().loss(&[0.0; 3], &targets, &mut by);
        assert!((loss - 3.0_f32.ln()).abs() < 1e-6, "{loss}");
    }

    #[test]
    fn gradients_flow_through_the_mean() {
        let outputs = [0.3, -0.2, 0.9];
        let mut by = [0.0; 3];
        distribution().pull_back(&outputs, &[2.0], &mut by);
        for place in 0..3 {
            let moved = |by: f32| {
                let mut outputs = outputs;
                outputs[place] += by;
                2.0 * distribution().values(&outputs, &mut Vec::new())[0]
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((by[place] - expected).abs() < 1e-3, "{place}: {} {expected}", by[place]);
        }
    }

    #[test]
    fn samples_are_averaged_as_values_or_as_distributions() {
        let mut text = SampledOutputs::default();
        Returns::Value.sampled(&[1.0, 2.0, 3.0, 6.0], 2, &mut text);
        assert_eq!((&text.averaged[..], &text.values[..]), (&[2.0, 4.0][..], &[1.0, 2.0, 3.0, 6.0][..]));
        distribution().sampled(&[0.0, -60.0, -60.0, -60.0, 0.0, -60.0], 2, &mut text);
        assert!(text.averaged[..2].iter().all(|logit| (logit.exp() - 0.5).abs() < 1e-6), "{text:?}");
        assert!(text.values.iter().zip([-1.0, 0.0]).all(|(got, want)| (got - want).abs() < 1e-6), "{text:?}");
    }
}
