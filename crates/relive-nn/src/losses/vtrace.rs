/// The bounds at which V-trace clips importance ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VTraceClip {
    /// ρ̄, the bound for temporal differences.
    pub rho: f32,
    /// The bound for the policy gradient's advantages.
    pub pg_rho: f32,
    /// c̄, the bound for traces.
    pub c: f32,
    /// λ, which shortens traces and mixes each action value's bootstrap with the plain value.
    pub lambda: f32,
}

impl Default for VTraceClip {
    /// Returns 1 for all bounds and for λ.
    fn default() -> Self {
        Self { rho: 1.0, pg_rho: 1.0, c: 1.0, lambda: 1.0 }
    }
}

/// The results of V-trace for a sequence, with T numbers each.
#[derive(Debug, Clone, PartialEq)]
pub struct VTrace {
    /// The errors vs_t − V_t.
    pub errors: Vec<f32>,
    /// The action values r_{t+1} + γ_{t+1}·(λ·vs_{t+1} + (1 − λ)·V_{t+1}), as in rlax. With ratios of 1, the advantages are
    /// then those of [`generalized_advantages`](super::generalized_advantages).
    pub q_estimates: Vec<f32>,
    /// The advantages min(ρ̄_pg, ρ_t)·(q_estimate_t − V_t).
    pub pg_advantages: Vec<f32>,
}

/// Computes V-trace (Espeholt et al. 2018, eq. 1): `δ_t = min(ρ̄,ρ_t)(r + γV_{t+1} − V_t)`, `(vs−V)_t = δ_t +
/// γ·λ·min(c̄,ρ_t)(vs−V)_{t+1}`.
///
/// `values` are V_0..=V_T; the other slices have length T; `rhos` are π(a_t)/μ(a_t).
///
/// # Panics
/// If the lengths do not agree.
pub fn vtrace(values: &[f32], rewards: &[f32], discounts: &[f32], rhos: &[f32], clip: VTraceClip) -> VTrace {
    let steps = rewards.len();
    let lengths = (values.len(), discounts.len(), rhos.len());
    assert_eq!(
        lengths,
        (steps + 1, steps, steps),
        "values must have one element more than rewards; discounts and rhos as many as rewards"
    );
    let mut errors = vec![0.0; steps];
    let mut error = 0.0;
    for t in (0..steps).rev() {
        let delta = rhos[t].min(clip.rho) * (rewards[t] + discounts[t] * values[t + 1] - values[t]);
        error = delta + discounts[t] * clip.lambda * rhos[t].min(clip.c) * error;
        errors[t] = error;
    }
    let next = |t: usize| values[t + 1] + clip.lambda * errors.get(t + 1).unwrap_or(&0.0);
    let q_estimates: Vec<f32> = (0..steps).map(|t| rewards[t] + discounts[t] * next(t)).collect();
    let advantage = |t: usize| rhos[t].min(clip.pg_rho) * (q_estimates[t] - values[t]);
    let pg_advantages = (0..steps).map(advantage).collect();
    VTrace { errors, q_estimates, pg_advantages }
}
