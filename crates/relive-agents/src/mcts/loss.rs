//! The losses of the policy and the value.

/// The losses of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Losses {
    /// The squared error of values.
    pub(super) value: f32,
    /// The cross-entropy between the search's policy and the network's.
    pub(super) policy: f32,
}

/// Returns the mean over rows of `(target − V)² − Σ π ln p`, and its gradient with respect to the outputs. An output
/// row contains the logits of `p`, followed by V. `policies` are the π, `[rows, actions]`.
pub(super) fn loss(outputs: &[f32], targets: &[f32], policies: &[f32], by_outputs: &mut [f32]) -> Losses {
    let width = outputs.len() / targets.len().max(1);
    let share = share_of(targets.len());
    let (mut losses, mut probabilities) = (Losses::default(), Vec::new());
    let rows = outputs.chunks_exact(width.max(1)).zip(by_outputs.chunks_exact_mut(width.max(1)));
    let wanted = targets.iter().zip(policies.chunks_exact(width.saturating_sub(1).max(1)));
    for ((row, by_row), (target, policy)) in rows.zip(wanted) {
        let (logits, value) = row.split_at(width - 1);
        let (by_logits, by_value) = by_row.split_at_mut(width - 1);
        softmax(logits, &mut probabilities);
        for ((by, probability), wanted) in by_logits.iter_mut().zip(&probabilities).zip(policy) {
            *by = share * (probability - wanted);
            // A probability that underflows to 0 in float32 is at most this value.
            losses.policy -= share * wanted * probability.max(f32::MIN_POSITIVE).ln();
        }
        let error = target - value[0];
        by_value[0] = -2.0 * share * error;
        losses.value += share * error * error;
    }
    losses
}

/// Computes the probabilities of logits.
pub(super) fn softmax(logits: &[f32], out: &mut Vec<f32>) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    out.clear();
    out.extend(logits.iter().map(|logit| (logit - most).exp()));
    let sum: f32 = out.iter().sum();
    out.iter_mut().for_each(|share| *share /= sum);
}

/// Returns the weight of one row in the mean over `rows`.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
pub(super) fn share_of(rows: usize) -> f32 {
    1.0 / rows.max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_a_batch_matches_a_hand_computation() {
        // Two rows of two actions: equal logits, and the logits ln 3 and 0, which give probabilities 3/4 and 1/4.
        let outputs = [0.0, 0.0, 0.5, 3.0_f32.ln(), 0.0, -1.0];
        let mut by = [0.0; 6];
        let found = loss(&outputs, &[1.0, -1.0], &[1.0, 0.0, 0.5, 0.5], &mut by);
        let policy = 0.5 * (2.0_f32.ln() - 0.5 * (0.75_f32.ln() + 0.25_f32.ln()));
        assert!((found.value - 0.125).abs() < 1e-6 && (found.policy - policy).abs() < 1e-6, "{found:?}");
        for (by, expected) in by.iter().zip([-0.25, 0.25, -0.5, 0.125, -0.125, 0.0]) {
            assert!((by - expected).abs() < 1e-6, "{by} {expected}");
        }
    }
}
