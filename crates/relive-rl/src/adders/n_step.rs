//! Rewards over several steps.

use std::collections::VecDeque;

use relive_env::State;

/// The return over several steps.
///
/// For the steps after `s`, with rewards `r₁ … r_k`, discounts `d₁ … d_k` of the environment and the
/// additional discount `g`, the reward is `r₁ + g·d₁·r₂ + g²·d₁d₂·r₃ + …` and the discount is
/// `g^(k−1)·d₁⋯d_k`. The learner applies the missing power of `g`: its target is `reward + g·discount·V`,
/// with the value `V` of the final state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NStepReturn {
    /// The number of steps.
    pub steps: usize,
    /// The discounted sum of the rewards.
    pub reward: f32,
    /// The discount to apply to the value of the final state.
    pub discount: f32,
}

/// The newest steps of an episode, at most `n`.
#[derive(Debug, Clone)]
pub(crate) struct NStepWindow {
    n: usize,
    additional_discount: f32,
    steps: VecDeque<(f32, f32)>,
}

impl NStepWindow {
    pub(crate) fn new(n: usize, additional_discount: f32) -> Self {
        Self { n, additional_discount, steps: VecDeque::new() }
    }

    /// Adds a step, and returns the n-step return of the window that ends with it.
    pub(crate) fn push(&mut self, reward: f32, discount: f32) -> NStepReturn {
        if self.steps.len() == self.n {
            self.steps.pop_front();
        }
        self.steps.push_back((reward, discount));
        self.total()
    }

    /// Removes the oldest step. Returns the n-step return of the remaining steps, or `None` if no step remains.
    pub(crate) fn shrink(&mut self) -> Option<NStepReturn> {
        self.steps.pop_front();
        (!self.steps.is_empty()).then(|| self.total())
    }

    /// Returns the number of steps in the window.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Saves or restores the window.
    pub(crate) fn visit(&mut self, state: &mut State<'_>) {
        let mut len = self.steps.len() as u64;
        state.field(&mut len);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.n);
        self.steps.resize(len, (0.0, 0.0));
        for (reward, discount) in &mut self.steps {
            state.field(reward);
            state.field(discount);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.steps.clear();
    }

    fn total(&self) -> NStepReturn {
        total(self.steps.iter().copied(), self.additional_discount)
    }
}

impl NStepReturn {
    /// Computes the n-step return for these rewards and discounts, one of each per step.
    ///
    /// # Panics
    /// If the numbers of rewards and discounts differ.
    ///
    /// ```
    /// use relive_rl::adders::NStepReturn;
    /// let made = NStepReturn::of(&[2.0, 3.0, 5.0], &[1.0, 1.0, 1.0], 0.5);
    /// assert_eq!((made.reward, made.discount), (4.75, 0.25));
    /// ```
    #[must_use]
    pub fn of(rewards: &[f32], discounts: &[f32], additional_discount: f32) -> NStepReturn {
        assert_eq!(rewards.len(), discounts.len(), "rewards and discounts must have the same length");
        total(rewards.iter().copied().zip(discounts.iter().copied()), additional_discount)
    }
}

fn total(steps: impl Iterator<Item = (f32, f32)>, additional_discount: f32) -> NStepReturn {
    let mut total = NStepReturn { steps: 0, reward: 0.0, discount: 1.0 };
    for (reward, discount) in steps {
        if total.steps > 0 {
            total.discount *= additional_discount;
        }
        total.steps += 1;
        total.reward += total.discount * reward;
        total.discount *= discount;
    }
    total
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all transitions of an episode, in the order of their creation.
    fn episode(n: usize, g: f32, steps: &[(f32, f32)]) -> Vec<(f32, f32)> {
        let mut window = NStepWindow::new(n, g);
        let mut made: Vec<_> =
            steps.iter().map(|(reward, discount)| window.push(*reward, *discount)).collect();
        made.extend(std::iter::from_fn(|| window.shrink()));
        made.iter().map(|made| (made.reward, made.discount)).collect()
    }

    fn with_rewards(rewards: &[f32], discounts: &[f32]) -> Vec<(f32, f32)> {
        rewards.iter().copied().zip(discounts.iter().copied()).collect()
    }

    #[test]
    fn n_step_transitions_match_the_published_examples() {
        let short = with_rewards(&[1.0; 2], &[1.0, 0.0]);
        assert_eq!(episode(3, 1.0, &short), [(1.0, 1.0), (2.0, 0.0), (1.0, 0.0)]);
        let ones = with_rewards(&[1.0; 3], &[0.5, 0.5, 0.0]);
        assert_eq!(episode(3, 0.4, &ones), [(1.0, 0.5), (1.2, 0.1), (1.24, 0.0), (1.2, 0.0), (1.0, 0.0)]);
        assert_eq!(episode(2, 1.0, &ones), [(1.0, 0.5), (1.5, 0.25), (1.5, 0.0), (1.0, 0.0)]);
        let primes = with_rewards(&[2.0, 3.0, 5.0, 7.0], &[1.0, 1.0, 1.0, 0.0]);
        let expected = [(2.0, 1.0), (3.5, 0.5), (4.75, 0.25), (7.25, 0.0), (8.5, 0.0), (7.0, 0.0)];
        assert_eq!(episode(3, 0.5, &primes), expected);
    }

    /// Evaluates the formula term by term, in f64.
    fn naive(g: f64, steps: &[(f32, f32)]) -> (f64, f64) {
        let discounts = |upto: usize| steps[..upto].iter().map(|(_, d)| f64::from(*d)).product::<f64>();
        let power = |i: usize| g.powi(i32::try_from(i).unwrap());
        let terms = (0..steps.len()).map(|i| power(i) * discounts(i) * f64::from(steps[i].0));
        (terms.sum(), power(steps.len() - 1) * discounts(steps.len()))
    }

    proptest! {
        #[test]
        fn every_window_matches_the_formula(
            n in 1_usize..6,
            g in 0.0_f32..1.0,
            steps in prop::collection::vec((-2.0_f32..2.0, 0.0_f32..=1.0), 1..12),
        ) {
            let made = episode(n, g, &steps);
            let count = steps.len();
            prop_assert_eq!(made.len(), count + n.min(count) - 1);
            let growing = (1..=count).map(|end| end.saturating_sub(n)..end);
            let shrinking = (count.saturating_sub(n) + 1..count).map(|start| start..count);
            for (range, (reward, discount)) in growing.chain(shrinking).zip(made) {
                let expected = naive(f64::from(g), &steps[range]);
                prop_assert!((f64::from(reward) - expected.0).abs() < 1e-5);
                prop_assert!((f64::from(discount) - expected.1).abs() < 1e-5);
            }
        }
    }
}
