//! How a state moves.

/// One step of the classical Runge-Kutta method, of so many seconds, for a state whose change by the second is known.
pub(super) fn step<const N: usize>(
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
