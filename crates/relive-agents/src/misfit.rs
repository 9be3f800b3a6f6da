//! Settings that do not fit the environment: the log tells each of them once for a learner.

use relive_nn::losses::Support;

/// What a learner has told about its settings.
#[derive(Debug, Default)]
pub(crate) struct Misfits {
    clipping: bool,
    range: bool,
}

impl Misfits {
    /// Logs that a return over a transition's steps is larger than the bound to which the agent clips it.
    pub(crate) fn tell_clipping(&mut self, returns: &[f32], bound: f32) {
        if let Some(found) = self.clipping(returns, bound) {
            tracing::warn!(
                "a transition has a return of {found}, which the agent clips to max_abs_reward = {bound}: it cannot tell \
                 such returns apart; unless this is intended, set max_abs_reward to a larger number"
            );
        }
    }

    /// Logs that the target r + γ·E\[Z\] of a batch's first transition is beyond the atoms of Z, the distribution of
    /// returns; `next` is E\[Z\]. One transition of each batch takes hardly any time, and over many batches shows as much.
    pub(crate) fn tell_range(&mut self, support: Support, earned: (&[f32], &[f32]), next: f32) {
        if let Some(found) = self.range(support, earned, next) {
            let (least, most) = (support.atom(0), support.atom(support.atoms() - 1));
            tracing::warn!(
                "a discounted return of about {found} is outside value_range = [{least}, {most}]: the agent cannot tell such \
                 returns apart; set value_range to the returns that are possible from any state on"
            );
        }
    }

    fn clipping(&mut self, returns: &[f32], bound: f32) -> Option<f32> {
        if self.clipping {
            return None;
        }
        let found = returns.iter().copied().find(|sum| sum.abs() > bound)?;
        self.clipping = true;
        Some(found)
    }

    fn range(&mut self, support: Support, (rewards, discounts): (&[f32], &[f32]), next: f32) -> Option<f32> {
        if self.range {
            return None;
        }
        let (reward, discount) = (rewards.first()?, discounts.first()?);
        let (least, most) = (support.atom(0), support.atom(support.atoms() - 1));
        let target = reward + discount * next;
        // Rounding must not count at the range's exact ends.
        let tolerance = (most - least) * 1e-3;
        if (least - tolerance..=most + tolerance).contains(&target) || target.is_nan() {
            return None;
        }
        self.range = true;
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clipped_return_is_told_once() {
        let mut misfits = Misfits::default();
        assert_eq!(misfits.clipping(&[1.0, -1.0, 0.0], 1.0), None);
        assert_eq!(misfits.clipping(&[0.0, -3.0, 5.0], 1.0), Some(-3.0));
        assert_eq!(misfits.clipping(&[-3.0], 1.0), None);
    }

    #[test]
    fn a_target_beyond_the_atoms_is_told_once() {
        let (support, mut misfits) = (Support::new(-1.0, 1.0, 3), Misfits::default());
        assert_eq!(misfits.range(support, (&[], &[]), 1.0), None);
        assert_eq!(misfits.range(support, (&[0.1, -2.0], &[0.9, 0.9]), 1.0), None);
        assert_eq!(misfits.range(support, (&[-2.0], &[0.5]), 1.0), Some(-1.5));
        assert_eq!(misfits.range(support, (&[-2.0], &[0.5]), 1.0), None);
        assert_eq!(Misfits::default().range(support, (&[f32::NAN], &[0.5]), 1.0), None);
    }
}
