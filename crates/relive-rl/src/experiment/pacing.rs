//! How much is learned between two steps, where one thread does both.

use relive_env::State;

use crate::Pace;

/// Learner steps by counting observations: none before there are enough, then one for every so many observations, or several for each.
#[derive(Debug)]
pub(super) struct Pacing {
    observations: u64,
    before_learning: u64,
    per_step: u64,
    steps_at_once: u64,
}

impl Pacing {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the whole part of a positive ratio"
    )]
    pub(super) fn new(pace: Pace) -> Pacing {
        let observations_per_step = pace.batch_size as f64 / pace.samples_per_insert;
        let (per_step, steps_at_once) = if observations_per_step > 1.0 {
            (observations_per_step as u64, 1)
        } else {
            (1, (1.0 / observations_per_step) as u64)
        };
        Pacing { observations: 0, before_learning: pace.min_observations, per_step, steps_at_once }
    }

    /// What a checkpoint keeps of it.
    pub(super) fn visit(&mut self, state: &mut State<'_>) {
        state.field(&mut self.observations);
    }

    /// Learner steps that are due after another observation.
    pub(super) fn observed(&mut self) -> u64 {
        self.observations += 1;
        let Some(beyond) = self.observations.checked_sub(self.before_learning) else { return 0 };
        if beyond.is_multiple_of(self.per_step) { self.steps_at_once } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(batch_size: usize, samples_per_insert: f64, observations: usize) -> Vec<u64> {
        let mut pacing = Pacing::new(Pace { batch_size, samples_per_insert, min_observations: 4 });
        (0..observations).map(|_| pacing.observed()).collect()
    }

    #[test]
    fn large_batches_are_rare_and_small_ones_several() {
        assert_eq!(due(4, 2.0, 9), [0, 0, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(due(3, 10.0, 6), [0, 0, 0, 3, 3, 3], "a ratio of .3 is cut to three");
        assert_eq!(due(4, 4.0, 6), [0, 0, 0, 1, 1, 1]);
    }
}
