//! A normal distribution squashed by tanh, and the losses of SAC.

use relive_nn::Stream;

use crate::actor_critic::HALF_LOG_TWO_PI;

/// Logarithms of standard deviations are clipped to these.
const LOG_STD: [f32; 2] = [-20.0, 2.0];

/// Actions that were drawn by the outputs of the policy network: tanh(μ + σ·z).
#[derive(Debug, Default)]
pub(super) struct Drawn {
    /// In −1..1, `[batch, dimensions]`.
    pub(super) actions: Vec<f32>,
    /// Logarithms of their densities, `[batch]`.
    pub(super) log_probabilities: Vec<f32>,
    z: Vec<f32>,
}

impl Drawn {
    /// Draws an action for each row of outputs, means before logarithms of standard deviations.
    #[expect(clippy::cast_possible_truncation, reason = "actions are float32")]
    pub(super) fn draw(&mut self, outputs: &[f32], dimensions: usize, stream: &mut Stream) {
        self.actions.clear();
        self.log_probabilities.clear();
        self.z.clear();
        for row in outputs.chunks_exact(2 * dimensions) {
            let (means, log_stds) = row.split_at(dimensions);
            let mut log_probability = 0.0;
            for (mean, log_std) in means.iter().zip(log_stds) {
                let z = stream.normal() as f32;
                let log_std = log_std.clamp(LOG_STD[0], LOG_STD[1]);
                let unsquashed = mean + log_std.exp() * z;
                self.actions.push(unsquashed.tanh());
                self.z.push(z);
                log_probability -= 0.5 * z * z + log_std + HALF_LOG_TWO_PI + log_slope(unsquashed);
            }
            self.log_probabilities.push(log_probability);
        }
    }

    /// The gradient by the outputs of mean(α·log π − Q), where `by_actions` has the gradient of mean(−Q) by the actions.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    pub(super) fn pull_back(
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

/// ln(1 − tanh²(u)), without loss of digits where tanh is near ±1.
fn log_slope(unsquashed: f32) -> f32 {
    let size = unsquashed.abs();
    2.0 * (std::f32::consts::LN_2 - size - (-2.0 * size).exp().ln_1p())
}

/// What the critics are drawn to: r + γ·(min Q′ − α·log π).
pub(super) fn targets(
    (rewards, discounts): (&[f32], &[f32]),
    next_values: [&[f32]; 2],
    next: &Drawn,
    temperature: f32,
    out: &mut Vec<f32>,
) {
    out.clear();
    let [first, second] = next_values;
    for (row, log_probability) in next.log_probabilities.iter().enumerate() {
        let value = first[row].min(second[row]) - temperature * log_probability;
        out.push(rewards[row] + discounts[row] * value);
    }
}

/// Half the mean squared error of a critic, and its gradient by the values.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
pub(super) fn critic_loss(values: &[f32], targets: &[f32], by_values: &mut [f32]) -> f32 {
    let count = values.len().max(1) as f32;
    let mut loss = 0.0;
    for ((value, target), by_value) in values.iter().zip(targets).zip(by_values) {
        let error = value - target;
        loss += 0.5 * error * error;
        *by_value = error / count;
    }
    loss / count
}

/// The mean of −min Q, and its gradient by the values of each critic.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
pub(super) fn least_value_loss(values: [&[f32]; 2], by_values: [&mut [f32]; 2]) -> f32 {
    let [first, second] = values;
    let [by_first, by_second] = by_values;
    let weight = 1.0 / first.len().max(1) as f32;
    let mut loss = 0.0;
    for row in 0..first.len() {
        let is_first = first[row] <= second[row];
        loss -= if is_first { first[row] } else { second[row] };
        (by_first[row], by_second[row]) = if is_first { (-weight, 0.0) } else { (0.0, -weight) };
    }
    loss * weight
}

#[cfg(test)]
mod tests {
    use relive_nn::Key;

    use super::*;

    /// mean(α·log π − Q) with Q = Σ c·a, by what was drawn with the same stream.
    fn loss(outputs: &[f32], temperature: f32, slopes: &[f32]) -> (f32, Drawn) {
        let mut drawn = Drawn::default();
        drawn.draw(outputs, 2, &mut Key::from_seed(5).stream());
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
    fn the_gradient_is_that_of_differences() {
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
    fn densities_add_up_to_one() {
        let outputs = [0.4, -0.3];
        let mut drawn = Drawn::default();
        let mut stream = Key::from_seed(1).stream();
        // The mean of 1 ∕ density is the length of −1..1, where all of it is reached.
        let mut sum = 0.0;
        for _ in 0..40_000 {
            drawn.draw(&outputs, 1, &mut stream);
            if drawn.actions[0].abs() < 0.9 {
                sum += f64::from((-drawn.log_probabilities[0]).exp());
            }
        }
        assert!((sum / 40_000.0 - 1.8).abs() < 0.03, "{sum}");
    }

    #[test]
    fn far_out_the_slope_of_tanh_is_still_a_number() {
        assert!((log_slope(0.5) - (1.0 - 0.5_f32.tanh().powi(2)).ln()).abs() < 1e-6);
        assert!((log_slope(30.0) + 60.0 - 4.0_f32.ln()).abs() < 1e-4);
    }

    #[test]
    fn the_lower_value_counts() {
        let (mut first, mut second) = ([0.0; 2], [0.0; 2]);
        let loss = least_value_loss([&[1.0, 5.0], &[2.0, 3.0]], [&mut first, &mut second]);
        assert_eq!((loss, first, second), (-2.0, [-0.5, 0.0], [0.0, -0.5]));
        let next = Drawn { log_probabilities: vec![-1.0], ..Drawn::default() };
        let mut out = Vec::new();
        targets((&[0.5], &[0.9]), [&[2.0], &[1.0]], &next, 0.1, &mut out);
        assert!((out[0] - (0.5 + 0.9 * 1.1)).abs() < 1e-6);
        let mut by = [0.0; 2];
        assert_eq!((critic_loss(&[1.0, 2.0], &[0.0, 4.0], &mut by), by), (1.25, [0.5, -1.0]));
    }
}
