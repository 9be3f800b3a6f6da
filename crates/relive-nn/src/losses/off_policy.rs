/// Computes off-policy returns from values of states and actions: `G_t = r_{t+1} + γ_{t+1}(v_{t+1} − c_{t+1}q_{t+1} +
/// c_{t+1}G_{t+1})`, and `r + γv` at the last step.
///
/// `v`, `rewards` and `discounts` have length T, `q` and `c` length T − 1 (0 if T is 0): `q[t]` is the value of the
/// action taken after the t-th transition.
///
/// # Panics
/// If the lengths do not agree.
pub fn off_policy_returns(q: &[f32], v: &[f32], rewards: &[f32], discounts: &[f32], c: &[f32]) -> Vec<f32> {
    let steps = rewards.len();
    assert_eq!(
        (v.len(), discounts.len()),
        (steps, steps),
        "v, rewards and discounts must have the same length"
    );
    let inner = steps.saturating_sub(1);
    assert_eq!((q.len(), c.len()), (inner, inner), "q and c must have one element fewer than rewards");
    let mut returns = vec![0.0; steps];
    for t in (0..steps).rev() {
        let inner = returns.get(t + 1).map_or(0.0, |after| c[t] * (after - q[t]));
        returns[t] = rewards[t] + discounts[t] * (v[t] + inner);
    }
    returns
}

/// Returns the trace coefficients of Retrace (Munos et al. 2016): `λ·min(1, π/μ)`, from the policies' probabilities of
/// the actions taken.
pub fn retrace_coefficients(pi: &[f32], mu: &[f32], lambda: f32) -> Vec<f32> {
    /// Prevents a division by zero, as in rlax.
    const EPSILON: f32 = 1e-8;
    pi.iter().zip(mu).map(|(pi, mu)| lambda * (pi / (mu + EPSILON)).min(1.0)).collect()
}

/// A sequence of T transitions for [`retrace_errors`]. `_tm1` marks the first states of transitions, `_t` the states
/// after them.
#[derive(Debug, Clone, Copy)]
pub struct RetraceSequence<'a> {
    /// The values of the online network, `[T, actions]`.
    pub q_tm1: &'a [f32],
    /// Values `[T, actions]` of the target network.
    pub q_t: &'a [f32],
    /// The T actions taken.
    pub a_tm1: &'a [usize],
    /// The T actions taken next.
    pub a_t: &'a [usize],
    /// The T rewards.
    pub rewards: &'a [f32],
    /// The T discounts.
    pub discounts: &'a [f32],
    /// The policy's probabilities of all actions, `[T, actions]`, at time t.
    pub pi_t: &'a [f32],
    /// The probabilities with which `a_t` were taken.
    pub mu_t: &'a [f32],
}

/// Returns the T errors of Retrace, `G_t − q(s_t, a_t)`.
///
/// # Panics
/// If the slices do not belong to the same sequence, or an action is out of range.
pub fn retrace_errors(sequence: RetraceSequence<'_>, lambda: f32) -> Vec<f32> {
    let RetraceSequence { q_tm1, q_t, a_tm1, a_t, rewards, discounts, pi_t, mu_t } = sequence;
    let steps = rewards.len();
    if steps == 0 {
        return Vec::new();
    }
    let actions = q_t.len() / steps;
    let pick = |rows: &[f32], taken: &[usize]| -> Vec<f32> {
        rows.chunks_exact(actions).zip(taken).map(|(row, action)| row[*action]).collect()
    };
    let expected = |(q, pi): (&[f32], &[f32])| q.iter().zip(pi).map(|(q, pi)| q * pi).sum();
    let v: Vec<f32> = q_t.chunks_exact(actions).zip(pi_t.chunks_exact(actions)).map(expected).collect();
    let c = retrace_coefficients(&pick(pi_t, a_t), mu_t, lambda);
    let inner = steps - 1;
    let returns = off_policy_returns(&pick(q_t, a_t)[..inner], &v, rewards, discounts, &c[..inner]);
    returns.iter().zip(pick(q_tm1, a_tm1)).map(|(target, q)| target - q).collect()
}
