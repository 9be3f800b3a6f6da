//! Fitting a policy to recorded actions.

use relive_nn::heads::NormalHead;

use crate::actor_critic::HALF_LOG_TWO_PI;

/// A lower bound on the standard deviation: if all recorded actions of a state are equal, the density of a narrower
/// policy grows without bound.
const MIN_STDDEV: f32 = 0.03;

/// Returns the head of fitted policies: normal distributions with means that are squashed by tanh.
pub(super) fn head(dimensions: usize) -> NormalHead {
    NormalHead { tanh_mean: true, min_scale: MIN_STDDEV, init_scale: 0.5, ..NormalHead::new(dimensions) }
}

/// Reused memory.
#[derive(Debug, Default)]
pub(super) struct Regression {
    means: Vec<f32>,
    stddevs: Vec<f32>,
    by_means: Vec<f32>,
    by_stddevs: Vec<f32>,
}

impl Regression {
    /// Computes −mean w·ln π(a), and its gradient with respect to the outputs of the policy's network. Each transition
    /// has its own weight.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    pub(super) fn loss(
        &mut self,
        head: NormalHead,
        outputs: &[f32],
        (actions, weights): (&[f32], &[f32]),
        by_outputs: &mut [f32],
    ) -> f32 {
        let Self { means, stddevs, by_means, by_stddevs } = self;
        head.distributions(outputs, means, stddevs);
        by_means.clear();
        by_stddevs.clear();
        let (mut loss, count) = (0.0, weights.len().max(1) as f32);
        for (place, (mean, stddev)) in means.iter().zip(stddevs.iter()).enumerate() {
            let weight = weights[place / head.dimensions] / count;
            let z = (actions[place] - mean) / stddev;
            loss += weight * (0.5 * z * z + stddev.ln() + HALF_LOG_TWO_PI);
            by_means.push(-weight * z / stddev);
            by_stddevs.push(weight * (1.0 - z * z) / stddev);
        }
        head.pull_back(outputs, by_means, by_stddevs, by_outputs);
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_matches_finite_differences() {
        let (outputs, actions, weights) = ([0.3, -0.5, 0.1, -1.0], [0.6, -0.2], [0.5, 2.0]);
        let loss = |outputs: &[f32]| {
            let mut by = [0.0; 4];
            (Regression::default().loss(head(1), outputs, (&actions, &weights), &mut by), by)
        };
        let (_, found) = loss(&outputs);
        for place in 0..4 {
            let moved = |by: f32| {
                let mut outputs = outputs;
                outputs[place] += by;
                loss(&outputs).0
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((found[place] - expected).abs() < 3e-3, "{place}: {} {expected}", found[place]);
        }
    }
}
