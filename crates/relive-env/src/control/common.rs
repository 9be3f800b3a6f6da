//! What the swing-ups have in common.

use relive_tensor::DType;

use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::timestep::TimeStep;

/// Steps of an episode.
const MAX_STEPS: u32 = 1000;

pub(super) const GRAVITY: f64 = 9.81;

/// One number in `[-1, 1]`.
pub(super) fn actions() -> ArraySpec {
    ArraySpec::new("action", DType::Float32, [1]).bounded(-1.0, 1.0)
}

/// The number of an action, within its bounds.
pub(super) fn clipped(action: &[f32]) -> f64 {
    f64::from(action.first().copied().unwrap_or(0.0).clamp(-1.0, 1.0))
}

/// The answer to a step, which is the last when the time is over.
pub(super) fn answer(reward: f64, steps: u32) -> TimeStep {
    if steps == MAX_STEPS { TimeStep::truncation(reward, 1.0) } else { TimeStep::transition(reward) }
}

/// A normal number of mean 0 and standard deviation 1 (Box and Muller 1958).
pub(super) fn normal(stream: &mut Generator) -> f64 {
    let radius = (-2.0 * (1.0 - stream.random()).ln()).sqrt();
    radius * (std::f64::consts::TAU * stream.random()).cos()
}
