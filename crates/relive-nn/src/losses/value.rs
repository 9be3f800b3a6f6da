use std::ops::Range;

use super::rows::{argmax, count, width};
use super::{huber, huber_slope};

/// Computes `r + γd·q_value(s', argmax q_selector(s'))` (van Hasselt et al. 2016). With the same slice for both, these
/// are the targets of plain Q-learning.
///
/// `values` and `selector` are `[batch, actions]`.
///
/// # Panics
/// If the slices do not belong to the same batch.
pub fn double_q_targets(rewards: &[f32], discounts: &[f32], values: &[f32], selector: &[f32]) -> Vec<f32> {
    assert_eq!(values.len(), selector.len(), "values and selector must have the same length");
    assert_eq!(rewards.len(), discounts.len(), "rewards and discounts must have the same length");
    if rewards.is_empty() {
        return Vec::new();
    }
    let actions = width(values.len(), rewards.len());
    let steps = rewards.iter().zip(discounts);
    let next = values.chunks_exact(actions).zip(selector.chunks_exact(actions));
    steps.zip(next).map(|((r, d), (values, selector))| r + d * values[argmax(selector)]).collect()
}

/// The part of a batch that a loss uses.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'a> {
    /// The action taken in each row.
    pub actions: &'a [usize],
    /// The weight of each row, such as an importance weight. The loss does not normalize weights.
    pub weights: &'a [f32],
}

impl Selected<'_> {
    /// Returns the number of rows.
    pub(super) fn len(self) -> usize {
        assert_eq!(self.actions.len(), self.weights.len(), "actions and weights must have the same length");
        self.actions.len()
    }

    /// Returns the place of the numbers of a row's action, for rows of `width` numbers with `each` per action.
    ///
    /// # Panics
    /// If the action is out of range.
    pub(super) fn place(self, row: usize, width: usize, each: usize) -> Range<usize> {
        let (action, actions) = (self.actions[row], width / each);
        assert!(action < actions, "row {row} has action {action}, but there are {actions} actions");
        let begin = row * width + action * each;
        begin..begin + each
    }
}

/// A loss of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchLoss {
    /// The weighted mean over the batch.
    pub loss: f32,
    /// The unweighted value of each row, for new priorities: temporal-difference errors `target − q` for [`q_loss`],
    /// losses otherwise.
    pub rows: Vec<f32>,
}

/// Computes `mean wᵢ·Huber(targetᵢ − q(sᵢ, aᵢ))`, and its gradient with respect to the q-values.
///
/// `q` and `by_q` are `[batch, actions]`; `by_q` is overwritten.
///
/// # Panics
/// If the slices do not belong to the same batch, or an action is out of range.
pub fn q_loss(q: &[f32], selected: Selected<'_>, targets: &[f32], kappa: f32, by_q: &mut [f32]) -> BatchLoss {
    let batch = selected.len();
    assert_eq!(targets.len(), batch, "a target for each row");
    assert_eq!(q.len(), by_q.len(), "a gradient for each value");
    by_q.fill(0.0);
    let actions = width(q.len(), batch);
    let mut result = BatchLoss { loss: 0.0, rows: Vec::with_capacity(batch) };
    for (row, target) in targets.iter().enumerate() {
        let (place, weight) = (selected.place(row, actions, 1).start, selected.weights[row]);
        let error = target - q[place];
        result.loss += weight * huber(error, kappa) / count(batch);
        by_q[place] = -weight * huber_slope(error, kappa) / count(batch);
        result.rows.push(error);
    }
    result
}
