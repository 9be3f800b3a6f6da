/// Computes n-step returns within a sequence: with k = min(n, T − t), `Σ_{i<k} (Π γ)·r_{t+i+1} + (Π_k γ)·v_{t+k}`. Near
/// the end of the sequence, the horizon shrinks, and the last value is the bootstrap.
///
/// `values[t]` is the value of the state after the t-th transition; all slices have length T.
///
/// # Panics
/// If `n` is 0, or the slices differ in length.
pub fn n_step_returns(rewards: &[f32], discounts: &[f32], values: &[f32], n: usize) -> Vec<f32> {
    let steps = rewards.len();
    assert!(n > 0, "returns of no steps");
    assert_eq!(
        (discounts.len(), values.len()),
        (steps, steps),
        "rewards, discounts and values must have the same length"
    );
    let from = |t: usize| {
        let last = t.saturating_add(n).min(steps) - 1;
        (t..=last).rev().fold(values[last], |value, i| rewards[i] + discounts[i] * value)
    };
    (0..steps).map(from).collect()
}

/// Computes advantages by generalized advantage estimation (Schulman et al. 2016, eq. 16): `A_t = δ_t +
/// γ_{t+1}·λ·A_{t+1}`, `δ_t = r_{t+1} + γ_{t+1}V_{t+1} − V_t`.
///
/// `values` are V_0..=V_T; the other slices have length T.
///
/// # Panics
/// If the lengths do not agree.
pub fn generalized_advantages(values: &[f32], rewards: &[f32], discounts: &[f32], lambda: f32) -> Vec<f32> {
    let steps = rewards.len();
    assert_eq!(
        (values.len(), discounts.len()),
        (steps + 1, steps),
        "values must have one element more than rewards and discounts"
    );
    let mut advantages = vec![0.0; steps];
    let mut advantage = 0.0;
    for t in (0..steps).rev() {
        let delta = rewards[t] + discounts[t] * values[t + 1] - values[t];
        advantage = delta + discounts[t] * lambda * advantage;
        advantages[t] = advantage;
    }
    advantages
}
