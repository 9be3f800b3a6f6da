//! A normal distribution squashed by tanh (Haarnoja et al. 2018, appendix C).

use crate::actor_critic::HALF_LOG_TWO_PI;

/// Logarithms of standard deviations are clipped to this range.
const LOG_STD: [f32; 2] = [-20.0, 2.0];

/// Actions closer to ±1 than this value are clipped, because tanh never reaches 1.
const MAX_ACTION: f32 = 0.999;

/// Actions drawn from the outputs of the policy network: tanh(μ + σ·z).
#[derive(Debug, Default)]
pub(crate) struct TanhNormal {
    /// The actions in −1..1, `[batch, dimensions]`.
    pub(crate) actions: Vec<f32>,
    /// Their log-densities, `[batch]`.
    pub(crate) log_probabilities: Vec<f32>,
    z: Vec<f32>,
}

impl TanhNormal {
    /// Draws an action for each row of outputs (means, then logarithms of standard deviations) from standard normal
    /// numbers.
    pub(crate) fn draw(&mut self, outputs: &[f32], dimensions: usize, mut draw: impl FnMut() -> f32) {
        self.actions.clear();
        self.log_probabilities.clear();
        self.z.clear();
        for row in outputs.chunks_exact(2 * dimensions) {
            let (means, log_stds) = row.split_at(dimensions);
            let mut log_probability = 0.0;
            for (mean, log_std) in means.iter().zip(log_stds) {
                let z = draw();
                let log_std = log_std.clamp(LOG_STD[0], LOG_STD[1]);
                let unsquashed = mean + log_std.exp() * z;
                self.actions.push(unsquashed.tanh());
                self.z.push(z);
                log_probability -= 0.5 * z * z + log_std + HALF_LOG_TWO_PI + log_slope(unsquashed);
            }
            self.log_probabilities.push(log_probability);
        }
    }

    /// Computes −mean ln π(a) of recorded actions, and its gradient with respect to the outputs.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    pub(crate) fn imitate(
        outputs: &[f32],
        actions: &[f32],
        dimensions: usize,
        by_outputs: &mut [f32],
    ) -> f32 {
        let weight = dimensions as f32 / actions.len().max(1) as f32;
        let mut loss = 0.0;
        let rows = outputs.chunks_exact(2 * dimensions).zip(by_outputs.chunks_exact_mut(2 * dimensions));
        for ((row, by_row), actions) in rows.zip(actions.chunks_exact(dimensions)) {
            let ((means, log_stds), (by_means, by_log_stds)) =
                (row.split_at(dimensions), by_row.split_at_mut(dimensions));
            for (number, action) in actions.iter().enumerate() {
                let unsquashed = action.clamp(-MAX_ACTION, MAX_ACTION).atanh();
                let log_std = log_stds[number].clamp(LOG_STD[0], LOG_STD[1]);
                let is_inside = (LOG_STD[0]..=LOG_STD[1]).contains(&log_stds[number]);
                let z = (unsquashed - means[number]) / log_std.exp();
                loss += weight * (0.5 * z * z + log_std + HALF_LOG_TWO_PI + log_slope(unsquashed));
                by_means[number] = -weight * z / log_std.exp();
                by_log_stds[number] = if is_inside { weight * (1.0 - z * z) } else { 0.0 };
            }
        }
        loss
    }

    /// Computes the gradient of mean(α·log π − Q) with respect to the outputs, where `by_actions` is the gradient of
    /// mean(−Q) with respect to the actions.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    pub(crate) fn pull_back(
        &self,
        outputs: &[f32],
        by_actions: &[f32],
        temperature: f32,
        by_outputs: &mut [f32],
    ) {
        let rows = self.log_probabilities.len();
        let dimensions = self.actions.len() / rows.max(1);
        let weight = temperature / rows.max(1) as f32;
        for (row, by_row) in by_outputs.chunks_exact_mut(2 * dimensions).enumerate() {
            let (by_means, by_log_stds) = by_row.split_at_mut(dimensions);
            for number in 0..dimensions {
                let place = row * dimensions + number;
                let (action, z) = (self.actions[place], self.z[place]);
                let log_std = outputs[2 * row * dimensions + dimensions + number];
                let by_unsquashed = 2.0 * weight * action + by_actions[place] * (1.0 - action * action);
                by_means[number] = by_unsquashed;
                let is_inside = (LOG_STD[0]..=LOG_STD[1]).contains(&log_std);
                by_log_stds[number] =
                    if is_inside { by_unsquashed * log_std.exp() * z - weight } else { 0.0 };
            }
        }
    }
}

/// Returns ln(1 − tanh²(u)), without loss of precision where tanh is near ±1.
fn log_slope(unsquashed: f32) -> f32 {
    let size = unsquashed.abs();
    2.0 * (std::f32::consts::LN_2 - size - (-2.0 * size).exp().ln_1p())
}

#[cfg(test)]
mod tests {
    use relive_nn::Key;

    use super::super::noise::draw;
    use super::*;

    /// mean(α·log π − Q) with Q = Σ c·a, from actions drawn with the same stream.
    fn loss(outputs: &[f32], temperature: f32, slopes: &[f32]) -> (f32, TanhNormal) {
        let mut drawn = TanhNormal::default();
        let mut stream = Key::from_seed(5).stream();
        drawn.draw(outputs, 2, || draw(&mut stream));
        let of_row = |(row, log_probability): (usize, &f32)| {
            let actions = &drawn.actions[2 * row..2 * row + 2];
            let value: f32 =
                actions.iter().zip(&slopes[2 * row..]).map(|(action, slope)| action * slope).sum();
            temperature * log_probability - value
        };
        let sum: f32 = drawn.log_probabilities.iter().enumerate().map(of_row).sum();
        (sum / 2.0, drawn)
    }

    #[test]
    fn the_gradient_matches_finite_differences() {
        let outputs = [0.3, -0.5, 0.1, -1.0, 0.8, 0.0, -0.4, 2.5];
        let slopes = [0.7, -0.2, 1.5, 0.4];
        let (_, drawn) = loss(&outputs, 0.6, &slopes);
        let by_actions: Vec<f32> = slopes.iter().map(|slope| -slope / 2.0).collect();
        let mut found = [0.0; 8];
        drawn.pull_back(&outputs, &by_actions, 0.6, &mut found);
        for place in 0..8 {
            let moved = |by: f32| {
                let mut outputs = outputs;
                outputs[place] += by;
                loss(&outputs, 0.6, &slopes).0
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((found[place] - expected).abs() < 2e-3, "{place}: {} {expected}", found[place]);
        }
    }

    #[test]
    fn the_gradient_of_imitation_matches_finite_differences() {
        let (outputs, actions) = ([0.3, -0.5, 0.1, -1.0, 0.8, 0.0, -0.4, 0.5], [0.9, -0.3, 0.0, 0.7]);
        let mut found = [0.0; 8];
        TanhNormal::imitate(&outputs, &actions, 2, &mut found);
        for place in 0..8 {
            let moved = |by: f32| {
                let (mut outputs, mut ignored) = (outputs, [0.0; 8]);
                outputs[place] += by;
                TanhNormal::imitate(&outputs, &actions, 2, &mut ignored)
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((found[place] - expected).abs() < 2e-3, "{place}: {} {expected}", found[place]);
        }
    }

    #[test]
    fn densities_sum_to_one() {
        let outputs = [0.4, -0.3];
        let mut drawn = TanhNormal::default();
        let mut stream = Key::from_seed(1).stream();
        // The mean of 1 ∕ density is the length of −1..1 if the actions cover the whole range.
        let mut sum = 0.0;
        for _ in 0..40_000 {
            drawn.draw(&outputs, 1, || draw(&mut stream));
            if drawn.actions[0].abs() < 0.9 {
                sum += f64::from((-drawn.log_probabilities[0]).exp());
            }
        }
        assert!((sum / 40_000.0 - 1.8).abs() < 0.03, "{sum}");
    }

    #[test]
    fn the_slope_of_tanh_is_finite_far_out() {
        assert!((log_slope(0.5) - (1.0 - 0.5_f32.tanh().powi(2)).ln()).abs() < 1e-6);
        assert!((log_slope(30.0) + 60.0 - 4.0_f32.ln()).abs() < 1e-4);
    }
}
