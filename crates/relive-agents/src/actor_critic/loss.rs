//! The losses of the policy and the value, with closed-form gradients with respect to the networks' outputs.

use std::ops::Range;

use relive_rl::Result;
use relive_rl::learners::Peers;

use crate::choices::Choices;
use crate::together;

/// ln √(2π).
pub(crate) const HALF_LOG_TWO_PI: f32 = 0.918_938_5;

/// The inputs of the policy loss, apart from the network's outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PolicyLoss<'a> {
    /// The log-probabilities with which the actions were drawn, `[batch]`.
    pub(crate) old: &'a [f32],
    /// `[batch]`
    pub(crate) advantages: &'a [f32],
    /// The clip range of the probability ratio (ε of PPO): moving the ratio beyond 1 ± ε gains nothing. `None` for the
    /// plain policy gradient.
    pub(crate) clip: Option<f32>,
    /// The weight of the entropy.
    pub(crate) entropy_cost: f32,
}

/// Means over a batch, for the log.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PolicyMetrics {
    pub(crate) loss: f32,
    pub(crate) entropy: f32,
    /// An estimate of KL(old ‖ new): the mean of `r − 1 − ln r` (Schulman 2020).
    pub(crate) divergence: f32,
    /// The share of ratios outside the clip range.
    pub(crate) clipped: f32,
}

impl PolicyLoss<'_> {
    /// Returns the loss of one action, and its derivative with respect to the action's log-probability.
    ///
    /// With a clip range, this is equation 7 of Schulman et al. 2017, `−min(r·A, clip(r, 1 − ε, 1 + ε)·A)`; without a
    /// clip range, it is `−A·ln π`.
    fn of_action(&self, index: usize, log_probability: f32, found: &mut PolicyMetrics) -> (f32, f32) {
        let advantage = self.advantages[index];
        let log_ratio = log_probability - self.old[index];
        let ratio = log_ratio.exp();
        found.divergence += ratio - 1.0 - log_ratio;
        let Some(clip) = self.clip else {
            return (-advantage * log_probability, -advantage);
        };
        let (free, bound) = (ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage);
        found.clipped += f32::from((ratio - 1.0).abs() > clip);
        if free <= bound { (-free, -free) } else { (-bound, 0.0) }
    }

    /// Returns the loss for actions that consist of choices with these numbers of values, from the logits of all
    /// choices, `[batch, values]`, and the values that were chosen, `[batch, choices]`.
    pub(crate) fn categorical(
        &self,
        counts: &[usize],
        (logits, chosen): (&[f32], &[usize]),
        by_logits: &mut [f32],
    ) -> PolicyMetrics {
        let (mut found, width) = (PolicyMetrics::default(), counts.iter().sum());
        let share = per_row(self.old.len());
        let mut choices = Vec::with_capacity(counts.len());
        let rows = logits.chunks_exact(width).zip(by_logits.chunks_exact_mut(width));
        for (index, ((logits, gradient), chosen)) in rows.zip(chosen.chunks_exact(counts.len())).enumerate() {
            choices.clear();
            // The gradient buffer initially contains the probabilities.
            let of_choice =
                |(place, value): (Range<usize>, &usize)| Choice::new(logits, (place, *value), gradient);
            choices.extend(Choices::places(counts).zip(chosen).map(of_choice));
            let log_probability = choices.iter().map(|choice| choice.log_probability).sum();
            let (loss, slope) = self.of_action(index, log_probability, &mut found);
            found.loss += loss;
            for choice in &choices {
                found.entropy += choice.entropy;
                choice.differentiate(logits, (slope, self.entropy_cost, share), gradient);
            }
        }
        found.mean(share, self.entropy_cost)
    }

    /// Returns the loss for continuous actions, from means `[batch, numbers]` and the logarithms of their standard
    /// deviations `[numbers]`. Adds to the gradient with respect to these logarithms.
    pub(crate) fn normal(
        &self,
        (means, log_std): (&[f32], &[f32]),
        actions: &[f32],
        by_means: &mut [f32],
        by_log_std: &mut [f32],
    ) -> PolicyMetrics {
        let (mut found, width) = (PolicyMetrics::default(), log_std.len());
        let share = per_row(self.old.len());
        let entropy: f32 = log_std.iter().map(|log_std| log_std + 0.5 + HALF_LOG_TWO_PI).sum();
        let rows = means.chunks_exact(width).zip(by_means.chunks_exact_mut(width));
        for (index, ((means, gradient), actions)) in rows.zip(actions.chunks_exact(width)).enumerate() {
            let mut log_probability = 0.0;
            for (((place, mean), action), log_std) in gradient.iter_mut().zip(means).zip(actions).zip(log_std)
            {
                // The gradient buffer initially contains the action's distance from its mean, in standard deviations.
                *place = (action - mean) * (-log_std).exp();
                log_probability -= 0.5 * *place * *place + log_std + HALF_LOG_TWO_PI;
            }
            let (loss, slope) = self.of_action(index, log_probability, &mut found);
            found.loss += loss;
            found.entropy += entropy;
            for ((place, log_std), by_log_std) in gradient.iter_mut().zip(log_std).zip(&mut *by_log_std) {
                let z = *place;
                *place = share * slope * z * (-log_std).exp();
                *by_log_std += share * (slope * (z * z - 1.0) - self.entropy_cost);
            }
        }
        found.mean(share, self.entropy_cost)
    }
}

/// One choice of an action, and its distribution.
struct Choice {
    /// The place of its values in the row of all values.
    place: Range<usize>,
    /// The value that was chosen.
    chosen: usize,
    log_probability: f32,
    entropy: f32,
    /// The largest logit `m`, and `ln Σ exp(logit − m)`.
    most: f32,
    log_total: f32,
}

impl Choice {
    /// Writes the probabilities of the values to their place in the row.
    fn new(logits: &[f32], (place, chosen): (Range<usize>, usize), row: &mut [f32]) -> Choice {
        let (logits, probabilities) = (&logits[place.clone()], &mut row[place.clone()]);
        let [most, log_total] = softmax(logits, probabilities);
        // A value of probability 0 does not contribute to the entropy.
        let part = |(p, logit): (&f32, &f32)| if *p > 0.0 { -p * (logit - most - log_total) } else { 0.0 };
        let entropy = probabilities.iter().zip(logits).map(part).sum();
        let log_probability = logits.get(chosen).map_or(f32::NAN, |logit| logit - most - log_total);
        Choice { place, chosen, log_probability, entropy, most, log_total }
    }

    /// Replaces the probabilities by the gradient with respect to the logits, given the derivative of the action's loss
    /// with respect to its log-probability, the weight of the entropy, and the weight of the row.
    fn differentiate(&self, logits: &[f32], (slope, entropy_cost, share): (f32, f32, f32), row: &mut [f32]) {
        let (logits, gradient) = (&logits[self.place.clone()], &mut row[self.place.clone()]);
        for (value, (place, logit)) in gradient.iter_mut().zip(logits).enumerate() {
            let p = *place;
            let log_p = logit - self.most - self.log_total;
            let of_entropy = if p > 0.0 { p * (log_p + self.entropy) } else { 0.0 };
            *place = share * (slope * (f32::from(value == self.chosen) - p) + entropy_cost * of_entropy);
        }
    }
}

impl PolicyMetrics {
    fn mean(self, share: f32, entropy_cost: f32) -> PolicyMetrics {
        PolicyMetrics {
            loss: share * (self.loss - entropy_cost * self.entropy),
            entropy: share * self.entropy,
            divergence: share * self.divergence,
            clipped: share * self.clipped,
        }
    }

    /// Converts these metrics, the value loss and the gradient from means over this learner's cells to means over the
    /// cells of all learners. Returns the metrics and the value loss.
    ///
    /// # Errors
    /// Another learner has been lost.
    pub(crate) fn mean_over_cells(
        self,
        of_values: f32,
        gradient: &mut Vec<f32>,
        (own, all): (usize, usize),
        peers: &Peers,
    ) -> Result<(PolicyMetrics, f32)> {
        let PolicyMetrics { loss, entropy, divergence, clipped } = self;
        let found = (gradient, [loss, entropy, divergence, clipped, of_values]);
        let [loss, entropy, divergence, clipped, of_values] =
            together::mean_over_cells(found, (own, all), peers)?;
        Ok((PolicyMetrics { loss, entropy, divergence, clipped }, of_values))
    }
}

/// Computes `cost · mean((V − return)²)`, and its gradient.
pub(crate) fn value_loss(values: &[f32], returns: &[f32], cost: f32, by_values: &mut [f32]) -> f32 {
    let share = cost * per_row(values.len());
    let mut loss = 0.0;
    for ((value, of_return), place) in values.iter().zip(returns).zip(by_values) {
        let error = value - of_return;
        loss += error * error;
        *place = 2.0 * share * error;
    }
    share * loss
}

#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
fn per_row(count: usize) -> f32 {
    1.0 / count.max(1) as f32
}

/// Writes the probabilities for the given logits. Returns the largest logit `m`, and `ln Σ exp(logit − m)`.
pub(super) fn softmax(logits: &[f32], out: &mut [f32]) -> [f32; 2] {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for (out, logit) in out.iter_mut().zip(logits) {
        *out = (logit - most).exp();
        total += *out;
    }
    let scale = 1.0 / total;
    out.iter_mut().for_each(|out| *out *= scale);
    [most, total.ln()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSES: [(Option<f32>, f32); 3] = [(None, 0.0), (Some(0.2), 0.01), (Some(0.2), 0.0)];

    /// Returns the gradient by finite differences of the loss.
    fn by_differences(at: &[f32], loss: impl Fn(&[f32]) -> f32) -> Vec<f32> {
        let step = 1e-2;
        let moved = |index: usize, by: f32| {
            let mut moved = at.to_vec();
            moved[index] += by;
            loss(&moved)
        };
        (0..at.len()).map(|index| (moved(index, step) - moved(index, -step)) / (2.0 * step)).collect()
    }

    fn close(a: &[f32], b: &[f32]) {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-3), "{a:?} {b:?}");
    }

    #[test]
    fn gradients_of_categorical_policies_match_finite_differences() {
        let logits = [0.3, -0.2, 0.9, 1.0, 0.0, -1.0];
        for (clip, entropy_cost) in LOSSES {
            let loss = PolicyLoss { old: &[-1.2, -0.5], advantages: &[1.5, -0.7], clip, entropy_cost };
            let mut gradient = [0.0; 6];
            let found = loss.categorical(&[3], (&logits, &[2, 0]), &mut gradient);
            let value = |logits: &[f32]| loss.categorical(&[3], (logits, &[2, 0]), &mut [0.0; 6]).loss;
            close(&gradient, &by_differences(&logits, value));
            assert!(found.entropy > 0.0 && found.divergence > 0.0);
        }
    }

    #[test]
    fn gradients_of_several_choices_match_finite_differences() {
        let logits = [0.3, -0.2, 0.9, 1.0, 0.0, -1.0, 0.4, 0.8, -0.6, 0.1];
        let (counts, chosen) = ([3, 2], [2, 0, 1, 1]);
        for (clip, entropy_cost) in LOSSES {
            let loss = PolicyLoss { old: &[-1.9, -1.5], advantages: &[1.5, -0.7], clip, entropy_cost };
            let mut gradient = [0.0; 10];
            let found = loss.categorical(&counts, (&logits, &chosen), &mut gradient);
            let value = |logits: &[f32]| loss.categorical(&counts, (logits, &chosen), &mut [0.0; 10]).loss;
            close(&gradient, &by_differences(&logits, value));
            // The entropy of independent choices is the sum of their entropies.
            let alone = |counts: &[usize], logits: &[f32]| {
                let loss = PolicyLoss { old: &[0.0], advantages: &[0.0], clip, entropy_cost };
                loss.categorical(counts, (logits, &[0]), &mut vec![0.0; logits.len()]).entropy
            };
            let sums =
                [&logits[..5], &logits[5..]].map(|row| alone(&[3], &row[..3]) + alone(&[2], &row[3..]));
            assert!((found.entropy - (sums[0] + sums[1]) / 2.0).abs() < 1e-6);
        }
    }

    #[test]
    fn gradients_of_normal_policies_match_finite_differences() {
        let (means, log_std, actions) = ([0.1, -0.4, 0.2, 0.6], [-0.3, 0.2], [0.3, -0.2, -0.5, 0.9]);
        for (clip, entropy_cost) in LOSSES {
            let loss = PolicyLoss { old: &[-1.9, -2.6], advantages: &[0.8, -1.1], clip, entropy_cost };
            let (mut by_means, mut by_log_std) = ([0.0; 4], [0.0; 2]);
            loss.normal((&means, &log_std), &actions, &mut by_means, &mut by_log_std);
            let value = |means: &[f32], log_std: &[f32]| {
                loss.normal((means, log_std), &actions, &mut [0.0; 4], &mut [0.0; 2]).loss
            };
            close(&by_means, &by_differences(&means, |means| value(means, &log_std)));
            close(&by_log_std, &by_differences(&log_std, |log_std| value(&means, log_std)));
        }
    }

    #[test]
    fn the_gradient_is_zero_beyond_the_clip() {
        // Ratios of 1.5: clipped with a positive advantage, not clipped with a negative one.
        let old = [0.5_f32.ln() - 1.5_f32.ln(); 2];
        let loss = PolicyLoss { old: &old, advantages: &[1.0, -1.0], clip: Some(0.2), entropy_cost: 0.0 };
        let mut gradient = [0.0; 4];
        let found = loss.categorical(&[2], (&[0.0; 4], &[0, 0]), &mut gradient);
        assert_eq!((gradient[0], gradient[1], found.clipped), (0.0, 0.0, 1.0));
        assert!((gradient[2] - 0.5 * 1.5 * 0.5).abs() < 1e-6, "{gradient:?}");
        assert!((found.loss - 0.5 * (-1.2 + 1.5)).abs() < 1e-6);
    }

    #[test]
    fn the_value_loss_moves_values_to_returns() {
        let mut gradient = [0.0; 2];
        assert_eq!(value_loss(&[1.0, 4.0], &[3.0, 4.0], 0.5, &mut gradient), 1.0);
        assert_eq!(gradient, [-1.0, 0.0]);
    }
}
