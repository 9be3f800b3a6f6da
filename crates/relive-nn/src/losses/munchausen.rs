use super::rows::{log_sum_exp, width};

/// The terms that Munchausen's targets add to the targets of Q-learning (Vieillard et al. 2020).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Munchausen {
    /// τ, the temperature of the policies.
    pub temperature: f32,
    /// α, the weight of the log-policy added to the reward.
    pub coefficient: f32,
    /// The lower bound on τ·ln π.
    pub clip: f32,
}

impl Default for Munchausen {
    /// Returns τ = 0.03, α = 0.9 and a clip at −1, as in the paper. Acme clips at −1,000.
    fn default() -> Self {
        Self { temperature: 0.03, coefficient: 0.9, clip: -1.0 }
    }
}

/// Computes `r + α·clip(τ·ln π̄(a|s), clip, 0) + γd·τ·ln Σ exp(q̄(s')/τ)`, where π̄ = softmax(q̄/τ) and all q̄ come
/// from the target network.
///
/// `q_tm1` (of s) and `q_t` (of s') are `[batch, actions]`.
///
/// # Panics
/// If the slices do not belong to the same batch, or an action is out of range.
pub fn munchausen_targets(
    munchausen: Munchausen,
    (rewards, discounts): (&[f32], &[f32]),
    actions: &[usize],
    q_tm1: &[f32],
    q_t: &[f32],
) -> Vec<f32> {
    assert_eq!(q_tm1.len(), q_t.len(), "the q-values of the two steps differ in length");
    assert_eq!(rewards.len(), discounts.len(), "rewards and discounts must have the same length");
    if rewards.is_empty() {
        return Vec::new();
    }
    let width = width(q_t.len(), rewards.len());
    let Munchausen { temperature, coefficient, clip } = munchausen;
    let soft_max = |row: &[f32]| {
        let scaled: Vec<f32> = row.iter().map(|q| q / temperature).collect();
        temperature * log_sum_exp(&scaled)
    };
    let bonus = |row: usize| {
        let before = &q_tm1[row * width..(row + 1) * width];
        coefficient * (before[actions[row]] - soft_max(before)).clamp(clip, 0.0)
    };
    let after = q_t.chunks_exact(width).map(soft_max);
    let steps = rewards.iter().zip(discounts).zip(after).enumerate();
    steps.map(|(row, ((r, d), after))| r + bonus(row) + d * after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn munchausen_targets_include_entropy_and_approach_q_learning_when_cold() {
        let (rewards, discounts) = (&[1.0_f32][..], &[0.5_f32][..]);
        let targets = |munchausen| {
            munchausen_targets(munchausen, (rewards, discounts), &[1], &[0.0, 2.0], &[3.0, 1.0])[0]
        };
        let cold = Munchausen { temperature: 1e-3, ..Munchausen::default() };
        assert!((targets(cold) - 2.5).abs() < 1e-4);
        // Computed manually for τ = 1: 1 + 0.9·(2 − ln(1 + e²)) + 0.5·ln(e³ + e).
        let hot = Munchausen { temperature: 1.0, ..Munchausen::default() };
        let by_hand = 1.0 - 0.9 * 0.126_928 + 0.5 * 3.126_928;
        assert!((targets(hot) - by_hand).abs() < 1e-5);
        // The first action was unlikely: τ·ln π = −2.13 is clipped to −1.
        let cut = munchausen_targets(hot, (rewards, discounts), &[0], &[0.0, 2.0], &[3.0, 1.0])[0];
        assert!((cut - (1.0 - 0.9 + 0.5 * 3.126_928)).abs() < 1e-5);
    }
}
