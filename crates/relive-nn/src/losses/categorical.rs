use super::rows::{argmax, count, log_sum_exp, width};
use super::value::{BatchLoss, Selected};

/// The atoms of a distribution of returns: evenly spaced from `min` to `max` (Bellemare et al. 2017).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Support {
    min: f32,
    max: f32,
    atoms: usize,
}

impl Support {
    /// # Panics
    /// If there are fewer than two atoms, or `max` is not above `min`.
    pub fn new(min: f32, max: f32, atoms: usize) -> Self {
        assert!(
            atoms >= 2 && max > min,
            "got {atoms} atoms from {min} to {max}, but there must be at least two, in increasing order"
        );
        Self { min, max, atoms }
    }

    /// Returns the number of atoms.
    pub fn atoms(self) -> usize {
        self.atoms
    }

    /// Returns the value of an atom.
    pub fn atom(self, index: usize) -> f32 {
        self.min + count(index) * self.spacing()
    }

    fn spacing(self) -> f32 {
        (self.max - self.min) / count(self.atoms - 1)
    }

    /// Returns the mean of a distribution given by logits.
    pub fn mean(self, logits: &[f32]) -> f32 {
        let total = log_sum_exp(logits);
        logits.iter().enumerate().map(|(index, logit)| (logit - total).exp() * self.atom(index)).sum()
    }

    /// Adds probability mass at any value to the two nearest atoms, or to the outermost atom if the value is beyond it.
    ///
    /// # Panics
    /// If the distribution has fewer numbers than atoms.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of atoms"
    )]
    pub fn spread(self, place: f32, mass: f32, distribution: &mut [f32]) {
        let position = (place.clamp(self.min, self.max) - self.min) / self.spacing();
        let below = (position as usize).min(self.atoms - 2);
        let share = (position - count(below)).clamp(0.0, 1.0);
        distribution[below] += mass * (1.0 - share);
        distribution[below + 1] += mass * share;
    }

    /// Returns the action with the largest mean, from logits `[actions, atoms]`.
    fn best(self, logits: &[f32]) -> usize {
        let means: Vec<f32> = logits.chunks_exact(self.atoms).map(|logits| self.mean(logits)).collect();
        argmax(&means)
    }
}

/// Returns the distributions of `r + γd·Z(s')`, projected onto the atoms, as `[batch, atoms]`. `logits` are the logits
/// of Z, `[batch, atoms]`.
///
/// # Panics
/// If the slices do not belong to the same batch.
pub fn categorical_targets(support: Support, rewards: &[f32], discounts: &[f32], logits: &[f32]) -> Vec<f32> {
    assert_eq!(rewards.len(), discounts.len(), "rewards and discounts must have the same length");
    assert_eq!(logits.len(), rewards.len() * support.atoms, "logits are [batch, atoms]");
    let mut targets = vec![0.0; logits.len()];
    let rows = targets.chunks_exact_mut(support.atoms).zip(logits.chunks_exact(support.atoms));
    for ((r, d), (target, logits)) in rewards.iter().zip(discounts).zip(rows) {
        let total = log_sum_exp(logits);
        for (index, logit) in logits.iter().enumerate() {
            support.spread(r + d * support.atom(index), (logit - total).exp(), target);
        }
    }
    targets
}

/// Computes C51's targets with double Q: Z(s') is the distribution of the action with the largest mean under
/// `selector`. `values` and `selector` are logits `[batch, actions, atoms]`; the targets are `[batch, atoms]`.
///
/// # Panics
/// If the slices do not belong to the same batch.
pub fn categorical_double_q_targets(
    support: Support,
    rewards: &[f32],
    discounts: &[f32],
    values: &[f32],
    selector: &[f32],
) -> Vec<f32> {
    assert_eq!(values.len(), selector.len(), "values and selector differ in length");
    if rewards.is_empty() {
        return Vec::new();
    }
    let width = width(values.len(), rewards.len());
    assert!(width.is_multiple_of(support.atoms), "values are [batch, actions, atoms]");
    let mut logits = Vec::with_capacity(rewards.len() * support.atoms);
    for (values, selector) in values.chunks_exact(width).zip(selector.chunks_exact(width)) {
        let begin = support.best(selector) * support.atoms;
        logits.extend_from_slice(&values[begin..begin + support.atoms]);
    }
    categorical_targets(support, rewards, discounts, &logits)
}

/// Computes `mean wᵢ·CE(targetᵢ, softmax(logits(sᵢ, aᵢ)))`, with its gradient with respect to the logits.
///
/// `logits` and `by_logits` are `[batch, actions, atoms]`, `targets` `[batch, atoms]`. For critics without actions, all
/// actions are 0. `by_logits` is overwritten.
///
/// # Panics
/// If the slices do not belong to the same batch, or an action is out of range.
pub fn categorical_loss(
    support: Support,
    logits: &[f32],
    selected: Selected<'_>,
    targets: &[f32],
    by_logits: &mut [f32],
) -> BatchLoss {
    let batch = selected.len();
    assert_eq!(targets.len(), batch * support.atoms, "targets are [batch, atoms]");
    assert_eq!(logits.len(), by_logits.len(), "a gradient for each logit");
    by_logits.fill(0.0);
    let width = width(logits.len(), batch);
    assert!(width.is_multiple_of(support.atoms), "logits are [batch, actions, atoms]");
    let mut result = BatchLoss { loss: 0.0, rows: Vec::with_capacity(batch) };
    for (row, target) in targets.chunks_exact(support.atoms).enumerate() {
        let place = selected.place(row, width, support.atoms);
        let scale = selected.weights[row] / count(batch);
        let loss = cross_entropy(&logits[place.clone()], target, scale, &mut by_logits[place]);
        result.loss += scale * loss;
        result.rows.push(loss);
    }
    result
}

fn cross_entropy(logits: &[f32], target: &[f32], scale: f32, by_logits: &mut [f32]) -> f32 {
    let total = log_sum_exp(logits);
    let mass: f32 = target.iter().sum();
    let mut loss = 0.0;
    for ((logit, target), by_logit) in logits.iter().zip(target).zip(by_logits) {
        loss -= target * (logit - total);
        *by_logit = scale * (mass * (logit - total).exp() - target);
    }
    loss
}
