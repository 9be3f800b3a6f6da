//! The parts of a step that all classic tasks share.

use crate::timestep::TimeStep;

/// Returns the answer to a step, which may terminate the episode or reach its time limit.
#[inline]
pub(super) fn answer(reward: f64, terminated: bool, out_of_time: bool) -> TimeStep {
    if terminated {
        TimeStep::termination(reward)
    } else if out_of_time {
        TimeStep::truncation(reward, 1.0)
    } else {
        TimeStep::transition(reward)
    }
}

/// Rounds an observation to float32.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "observations are float32")]
pub(crate) fn write<const N: usize>(observation: &mut [f32], values: [f64; N]) {
    for (cell, value) in observation.iter_mut().zip(values) {
        *cell = value as f32;
    }
}
