/// Generalised advantages (Schulman et al. 2016, eq. 16): `A_t = δ_t + γ_{t+1}·λ·A_{t+1}`, `δ_t = r_{t+1} + γ_{t+1}V_{t+1} − V_t`.
///
/// `values` are V_0..=V_T, the other slices are of length T.
///
/// # Panics
/// If the lengths are others.
pub fn generalized_advantages(values: &[f32], rewards: &[f32], discounts: &[f32], lambda: f32) -> Vec<f32> {
    let steps = rewards.len();
    assert_eq!((values.len(), discounts.len()), (steps + 1, steps), "values have one more than rewards");
    let mut advantages = vec![0.0; steps];
    let mut advantage = 0.0;
    for t in (0..steps).rev() {
        let delta = rewards[t] + discounts[t] * values[t + 1] - values[t];
        advantage = delta + discounts[t] * lambda * advantage;
        advantages[t] = advantage;
    }
    advantages
}
