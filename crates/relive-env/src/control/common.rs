//! The parts shared by the swing-ups.

use relive_tensor::DType;

use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::timestep::TimeStep;

/// The number of steps in an episode.
const MAX_STEPS: u32 = 1000;

pub(super) const GRAVITY: f64 = 9.81;

/// Returns the spec of actions: one number in `[-1, 1]`.
pub(super) fn actions() -> ArraySpec {
    ArraySpec::new("action", DType::Float32, [1]).bounded(-1.0, 1.0)
}

/// Returns the action's number, clipped to its bounds.
pub(super) fn clipped(action: &[f32]) -> f64 {
    f64::from(action.first().copied().unwrap_or(0.0).clamp(-1.0, 1.0))
}

/// Returns the result of a step. A step at the time limit truncates the episode.
pub(super) fn answer(reward: f64, steps: u32) -> TimeStep {
    if steps == MAX_STEPS { TimeStep::truncation(reward, 1.0) } else { TimeStep::transition(reward) }
}

/// Returns a sample from the standard normal distribution (Box and Muller 1958).
pub(super) fn normal(stream: &mut Generator) -> f64 {
    let radius = (-2.0 * (1.0 - stream.random()).ln()).sqrt();
    radius * (std::f64::consts::TAU * stream.random()).cos()
}

/// Takes one step of the classical Runge-Kutta method over `seconds`, for a state with a known derivative.
pub(super) fn runge_kutta<const N: usize>(
    state: [f64; N],
    seconds: f64,
    change: impl Fn([f64; N]) -> [f64; N],
) -> [f64; N] {
    let moved = |by: f64, along: [f64; N]| std::array::from_fn(|i| state[i] + by * along[i]);
    let first = change(state);
    let second = change(moved(seconds / 2.0, first));
    let third = change(moved(seconds / 2.0, second));
    let fourth = change(moved(seconds, third));
    let slope = |i: usize| first[i] + 2.0 * second[i] + 2.0 * third[i] + fourth[i];
    std::array::from_fn(|i| state[i] + seconds / 6.0 * slope(i))
}

/// Returns 1 at distance 0; the result decreases like a normal density to 0.1 at the margin.
pub(super) fn gaussian(distance: f64, margin: f64) -> f64 {
    // exp(−½(√(−2·ln 0.1)·d/m)²)
    0.1_f64.powf((distance / margin).powi(2))
}

/// Returns 1 at distance 0; the result decreases like a parabola to 0 at the margin, and is 0 beyond it.
pub(super) fn quadratic(distance: f64, margin: f64) -> f64 {
    (1.0 - (distance / margin).powi(2)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_decrease_to_the_documented_values() {
        assert_eq!((gaussian(0.0, 2.0), quadratic(0.0, 1.0)), (1.0, 1.0));
        assert!((gaussian(2.0, 2.0) - 0.1).abs() < 1e-12 && (gaussian(-2.0, 2.0) - 0.1).abs() < 1e-12);
        assert_eq!((quadratic(0.5, 1.0), quadratic(-1.0, 1.0), quadratic(3.0, 1.0)), (0.75, 0.0, 0.0));
    }
}
