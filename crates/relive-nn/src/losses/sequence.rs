use super::rows::{argmax, width};
use super::{n_step_returns, rescale, unscale};

/// The ε of [`rescale`] in R2D2.
const EPSILON: f32 = 1e-3;

/// Returns the return that an output of R2D2's network stands for: networks are trained on
/// [`transformed_n_step_targets`].
pub fn untransformed_value(value: f32) -> f32 {
    unscale(value, EPSILON)
}

/// Computes R2D2's T targets for a sequence of T + 1 states (Kapturowski et al. 2019): n-step returns of unscaled
/// values with double Q, rescaled again.
///
/// `selector` (of the online network) and `values` (of the target network) are `[T + 1, actions]`; `rewards` and
/// `discounts` have length T.
///
/// # Panics
/// If the slices do not belong to the same sequence, or `n` is 0.
pub fn transformed_n_step_targets(
    selector: &[f32],
    values: &[f32],
    rewards: &[f32],
    discounts: &[f32],
    n: usize,
) -> Vec<f32> {
    assert_eq!(values.len(), selector.len(), "values and selector must have the same length");
    if rewards.is_empty() {
        return Vec::new();
    }
    let actions = width(values.len(), rewards.len() + 1);
    let next = values.chunks_exact(actions).zip(selector.chunks_exact(actions)).skip(1);
    let next: Vec<f32> = next.map(|(values, selector)| unscale(values[argmax(selector)], EPSILON)).collect();
    let returns = n_step_returns(rewards, discounts, &next, n);
    returns.into_iter().map(|value| rescale(value, EPSILON)).collect()
}

/// Returns a sequence's priority, `η·max|δ| + (1 − η)·mean|δ|`, or 0 if there are no errors.
pub fn sequence_priority(errors: &[f32], eta: f32) -> f32 {
    let largest = errors.iter().fold(0.0_f32, |max, error| max.max(error.abs()));
    let mean = errors.iter().map(|error| error.abs()).sum::<f32>() / super::rows::count(errors.len().max(1));
    eta * largest + (1.0 - eta) * mean
}
