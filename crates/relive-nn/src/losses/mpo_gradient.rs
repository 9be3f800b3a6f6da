use super::mpo::{MIN_DUAL, MIN_RAW, Mpo, MpoBatch};
use super::rows::{count, log_sum_exp};
use crate::kernels::math::{sigmoid, softplus};

/// Independent normal distributions: means and standard deviations, each `[batch, dimensions]`.
#[derive(Debug, Clone, Copy)]
pub struct Normals<'a> {
    /// The means.
    pub means: &'a [f32],
    /// The standard deviations.
    pub stddevs: &'a [f32],
}

/// The outputs of [`Mpo::gradient`].
#[derive(Debug)]
pub struct MpoGradients<'a> {
    /// The gradient with respect to the means of the online policy, `[batch, dimensions]`.
    pub by_means: &'a mut [f32],
    /// The gradient with respect to the policy's standard deviations, `[batch, dimensions]`.
    pub by_stddevs: &'a mut [f32],
    /// The gradient with respect to the raw dual variables, in the order in which
    /// [`MpoDuals::new`](super::MpoDuals::new) adds them.
    pub by_duals: &'a mut [f32],
}

/// The metrics that [`Mpo::gradient`] returns for a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MpoMetrics {
    /// The loss.
    pub loss: f32,
    /// The KL divergence of the means divided by its bound, averaged over dimensions.
    pub kl_mean_rel: f32,
    /// The KL divergence of the standard deviations divided by its bound, averaged over dimensions.
    pub kl_stddev_rel: f32,
    /// The temperature η.
    pub temperature: f32,
}

impl Mpo {
    /// Returns the same loss as [`loss`](Self::loss), with its gradients in closed form, without a tape. `duals` are
    /// the raw dual variables, in the order in which [`MpoDuals::new`](super::MpoDuals::new) adds them.
    ///
    /// # Panics
    /// If the slices do not belong to the same batch.
    pub fn gradient(
        &self,
        duals: &[f32],
        online: Normals<'_>,
        target: Normals<'_>,
        batch: MpoBatch<'_>,
        gradients: &mut MpoGradients<'_>,
    ) -> MpoMetrics {
        let dimensions = (duals.len() - 2) / 2;
        let states = online.means.len() / dimensions;
        assert_eq!(
            batch.actions.len(),
            batch.samples * online.means.len(),
            "actions are [samples, batch, dimensions]"
        );
        assert_eq!(batch.q.len(), batch.samples * states, "values are [samples, batch]");
        let costs = out_of_bounds(batch.actions, dimensions);
        let mut weights = vec![0.0; batch.q.len()];
        let (temperatures, multipliers) = duals.split_at(2);
        let (by_temperatures, by_multipliers) = gradients.by_duals.split_at_mut(2);
        let mut loss = 0.0;
        for (place, (values, epsilon)) in
            [(batch.q, self.epsilon), (&costs[..], self.epsilon_penalty)].into_iter().enumerate()
        {
            let (part, by) =
                action_weights(values, batch.samples, temperatures[place], epsilon, &mut weights);
            loss += part;
            by_temperatures[place] = by;
        }
        loss += fit(&weights, batch, [online, target], gradients.by_means, gradients.by_stddevs);
        let mut relative = [0.0; 2];
        let sides = [
            (self.epsilon_mean, &mut *gradients.by_means),
            (self.epsilon_stddev, &mut *gradients.by_stddevs),
        ];
        for (side, (epsilon, by)) in sides.into_iter().enumerate() {
            for dimension in 0..dimensions {
                let place = side * dimensions + dimension;
                let (alpha, slope) = dual(multipliers[place]);
                let of = Divergence { online, target, dimension, dimensions, of_means: side == 0 };
                let kl = of.add(alpha, by);
                by_multipliers[place] = (epsilon - kl) * slope;
                loss += alpha * kl + alpha * (epsilon - kl);
                relative[side] += kl / epsilon / count(dimensions);
            }
        }
        let [kl_mean_rel, kl_stddev_rel] = relative;
        MpoMetrics { loss, kl_mean_rel, kl_stddev_rel, temperature: dual(temperatures[0]).0 }
    }
}

/// Returns a dual variable, and its derivative with respect to the raw number. At the minimum, the derivative is that of
/// softplus, so that the number can grow again.
fn dual(raw: f32) -> (f32, f32) {
    let raw = raw.max(MIN_RAW);
    (softplus(raw) + MIN_DUAL, sigmoid(raw))
}

/// Returns −‖a − clip(a, −1, 1)‖₂ of each action.
fn out_of_bounds(actions: &[f32], dimensions: usize) -> Vec<f32> {
    let beyond = |action: &[f32]| action.iter().map(|a| (a - a.clamp(-1.0, 1.0)).powi(2)).sum::<f32>();
    actions.chunks_exact(dimensions).map(|action| -beyond(action).sqrt()).collect()
}

/// Adds softmax over samples of values/η to the weights. Returns the loss of the temperature, and its gradient with
/// respect to the raw number.
fn action_weights(values: &[f32], samples: usize, raw: f32, epsilon: f32, weights: &mut [f32]) -> (f32, f32) {
    let (eta, slope) = dual(raw);
    let states = values.len() / samples.max(1);
    let (mut logs, mut means) = (0.0, 0.0);
    let mut column = vec![0.0; samples];
    for state in 0..states {
        column.iter_mut().enumerate().for_each(|(sample, v)| *v = values[sample * states + state] / eta);
        let total = log_sum_exp(&column);
        logs += total;
        for (sample, scaled) in column.iter().enumerate() {
            let weight = (scaled - total).exp();
            weights[sample * states + state] += weight;
            means += weight * scaled;
        }
    }
    let (logs, means) = (logs / count(states), means / count(states));
    let bound = epsilon - count(samples).ln();
    (eta * (bound + logs), (bound + logs - means) * slope)
}

/// Computes −mean over states of Σ w·(ln N(a; μ, σ̄) + ln N(a; μ̄, σ)), and its gradients, which are overwritten.
fn fit(
    weights: &[f32],
    batch: MpoBatch<'_>,
    [online, target]: [Normals<'_>; 2],
    by_means: &mut [f32],
    by_stddevs: &mut [f32],
) -> f32 {
    /// ln 2π: each of the two distributions contributes ½ ln 2π.
    const LOG_TWO_PI: f32 = 1.837_877;
    let numbers = online.means.len();
    let states = weights.len() / batch.samples.max(1);
    let dimensions = numbers / states.max(1);
    by_means.fill(0.0);
    by_stddevs.fill(0.0);
    let mut loss = 0.0;
    for (sample, actions) in batch.actions.chunks_exact(numbers.max(1)).enumerate() {
        for (place, action) in actions.iter().enumerate() {
            let weight = weights[sample * states + place / dimensions] / count(states);
            let (wide, narrow) = (target.stddevs[place], online.stddevs[place]);
            let (near, far) =
                ((action - online.means[place]) / wide, (action - target.means[place]) / narrow);
            loss += weight * (0.5 * (near * near + far * far) + wide.ln() + narrow.ln() + LOG_TWO_PI);
            by_means[place] -= weight * near / wide;
            by_stddevs[place] -= weight * (far * far - 1.0) / narrow;
        }
    }
    loss
}

/// The KL divergence of one dimension, averaged over the batch: of the means with the target's standard deviations, or
/// of the standard deviations with the target's means.
struct Divergence<'a> {
    online: Normals<'a>,
    target: Normals<'a>,
    dimension: usize,
    dimensions: usize,
    of_means: bool,
}

impl Divergence<'_> {
    /// Adds α times the gradient of the divergence to `by`.
    fn add(&self, alpha: f32, by: &mut [f32]) -> f32 {
        let Self { online, target, .. } = self;
        let states = count(by.len() / self.dimensions);
        let mut sum = 0.0;
        for place in (self.dimension..by.len()).step_by(self.dimensions) {
            let (stddev, wide) = (online.stddevs[place], target.stddevs[place]);
            let slope = if self.of_means {
                let z = (online.means[place] - target.means[place]) / wide;
                sum += 0.5 * z * z;
                z / wide
            } else {
                let ratio = (wide / stddev).powi(2);
                sum += 0.5 * (ratio - 1.0 - ratio.ln());
                (1.0 - ratio) / stddev
            };
            by[place] += alpha * slope / states;
        }
        sum / states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dual_variable_at_its_minimum_can_grow_again() {
        let (value, slope) = dual(MIN_RAW);
        assert!(value > MIN_DUAL && slope > 1e-8, "{value} {slope}");
        assert_eq!(dual(MIN_RAW - 1.0), (value, slope));
    }
}
