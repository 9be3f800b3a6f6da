//! Arithmetic as in Python.

use std::hint::black_box;

/// Returns the square as computed by C's `pow`, which differs from `value * value` in one case out of a thousand.
/// Bit-identical trajectories need this function. The exponent must be hidden from the compiler.
#[inline]
pub(crate) fn square(value: f64) -> f64 {
    value.powf(black_box(2.0))
}

/// Returns the [`square`] in float32.
#[inline]
pub(crate) fn square_single(value: f32) -> f32 {
    value.powf(black_box(2.0))
}

/// Returns the remainder with the sign of the divisor, which is positive here.
#[inline]
pub(crate) fn remainder(value: f64, divisor: f64) -> f64 {
    let rest = value % divisor;
    if rest < 0.0 { rest + divisor } else { rest.abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_not_negative() {
        assert_eq!(remainder(5.0, 3.0), 2.0);
        assert_eq!(remainder(-1.0, 3.0), 2.0);
        assert!(remainder(-3.0, 3.0).is_sign_positive());
    }
}
