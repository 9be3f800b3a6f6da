//! Logarithms and powers with the same bits on every CPU and GPU.
//!
//! Math libraries differ in the last bits, and fused multiply-adds round differently. These functions use only
//! additions, subtractions, multiplications and divisions of f64, which IEEE 754 rounds the same everywhere.
//! `kernels/math.cuh` has the same operations in the same order, with instructions that a compiler must not fuse.

#![expect(clippy::unreadable_literal, reason = "each constant has the digits that identify one f64")]

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

/// The coefficients of atanh(s)/s = 1 + s²/3 + s⁴/5 + …: with |s| ≤ 0.1716, the first omitted term is below 2⁻⁵⁶.
const ATANH_TERMS: [f64; 11] = [
    1.0,
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
];

/// 1/n!: with |x| ≤ 0.35, the first omitted term of exp(x) is below 2⁻⁵⁷.
const EXP_TERMS: [f64; 14] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40320.0,
    1.0 / 362880.0,
    1.0 / 3628800.0,
    1.0 / 39916800.0,
    1.0 / 479001600.0,
    1.0 / 6227020800.0,
];

/// Returns the polynomial with these coefficients, lowest first.
#[inline(always)]
fn polynomial(terms: &[f64], x: f64) -> f64 {
    let mut sum = 0.0;
    for term in terms.iter().rev() {
        sum = sum * x + term;
    }
    sum
}

/// Returns ln((1 + s) / (1 - s)).
#[inline(always)]
fn twice_atanh(s: f64) -> f64 {
    2.0 * s * polynomial(&ATANH_TERMS, s * s)
}

/// Splits a positive normal number into an exponent and a fraction: x = 2^exponent · fraction, with the fraction in
/// [√½, √2).
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    #[expect(clippy::cast_possible_wrap, reason = "11 bits")]
    let exponent = (bits >> 52) as i64 - 1023;
    let fraction = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    #[expect(clippy::cast_precision_loss, reason = "at most 1,024")]
    if fraction >= SQRT_2 { ((exponent + 1) as f64, fraction * 0.5) } else { (exponent as f64, fraction) }
}

/// Returns the logarithm to base 2 of a positive normal number; the error is below 4 · 2⁻⁵³ · max(1, |log2 x|).
#[must_use]
pub fn log2(x: f64) -> f64 {
    let (exponent, fraction) = split(x);
    exponent + twice_atanh((fraction - 1.0) / (fraction + 1.0)) * LOG2_E
}

/// Returns 2^x; 0 below -1,000 and infinity above 1,000, with a relative error below 4 · 2⁻⁵³ in between.
#[must_use]
pub fn exp2(x: f64) -> f64 {
    if x < -1000.0 {
        return 0.0;
    }
    if x > 1000.0 {
        return f64::INFINITY;
    }
    // Adding and subtracting 1.5 · 2⁵² rounds to an integer, ties to even.
    const ROUNDER: f64 = 6755399441055744.0;
    let whole = (x + ROUNDER) - ROUNDER;
    let power = polynomial(&EXP_TERMS, (x - whole) * LN_2);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 23 and 2,023")]
    let scale = f64::from_bits(((whole + 1023.0) as u64) << 52);
    power * scale
}

/// Returns base^exponent for a positive base, rounded to f32: within 0.501 units in the last place of the exact power
/// while |exponent · log2(base)| is below 128, as it is for all results that f32 can hold. A power that is too small for
/// a normal f32 becomes the smallest one, so that positive numbers stay positive.
#[must_use]
pub fn power(base: f32, exponent: f32) -> f32 {
    if exponent == 1.0 {
        return base;
    }
    let power = exp2(f64::from(exponent) * log2(f64::from(base)));
    #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
    let rounded = power as f32;
    rounded.max(f32::MIN_POSITIVE)
}

/// Returns -ln(1 - c) where c = (high · 2³² + low + ½) / 2⁶⁴ is a uniform number in (0, 1): an exponentially
/// distributed number, with a relative error below 8 · 2⁻⁵³ even where it is small.
#[must_use]
#[inline(always)]
pub(crate) fn exponential(high: u32, low: u32) -> f64 {
    const SCALE: f64 = 1.0 / 18446744073709551616.0;
    let c = (f64::from(high) * 4294967296.0 + (f64::from(low) + 0.5)) * SCALE;
    // If c rounds to 1, 1 - c has no logarithm, so it is replaced by 2⁻⁵³.
    let rest = if c < 1.0 { 1.0 - c } else { 1.1102230246251565e-16 };
    if rest * SQRT_2 >= 1.0 {
        // 1 - c loses the last bits of c; s = c / (2 - c) does not.
        return twice_atanh(c / (2.0 - c));
    }
    let (exponent, fraction) = split(rest);
    0.0 - (exponent * LN_2 + twice_atanh((fraction - 1.0) / (fraction + 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_exponentials_meet_their_stated_accuracy() {
        let mut x = 1.5e-45_f64;
        while x < 3.0e38 {
            let error = (log2(x) - x.log2()).abs();
            assert!(error <= 4.0 * f64::EPSILON / 2.0 * x.log2().abs().max(1.0), "log2({x}): {error}");
            x *= 1.000_91;
        }
        for step in -4_000..4_000 {
            let y = f64::from(step) * 0.0371;
            let error = (exp2(y) / y.exp2() - 1.0).abs();
            assert!(error <= 4.0 * f64::EPSILON / 2.0 + f64::EPSILON, "exp2({y}): {error}");
        }
        assert_eq!((exp2(-2e3), exp2(2e3)), (0.0, f64::INFINITY));
    }

    #[test]
    fn powers_match_the_library_up_to_rounding() {
        let mut differing = 0;
        for step in 1..20_000_u16 {
            let base = f32::from(step) * 0.013;
            for exponent in [0.0, 0.4, 0.5, 0.6, 0.7, 1.0, 2.5] {
                let exact = f64::from(base).powf(f64::from(exponent));
                #[expect(clippy::cast_possible_truncation, reason = "the test compares this rounding")]
                let rounded = exact as f32;
                let ours = power(base, exponent);
                let distance = (i64::from(ours.to_bits()) - i64::from(rounded.to_bits())).abs();
                assert!(distance <= 1, "{base}^{exponent} = {ours}, {exact}");
                differing += distance;
            }
        }
        assert!(differing < 5, "{differing} results differ in their last bit");
        assert_eq!(power(1e-30, 4.0), f32::MIN_POSITIVE);
        assert_eq!(power(3.7, 1.0).to_bits(), 3.7f32.to_bits());
        assert_eq!(power(3.7, 0.0), 1.0);
    }

    #[test]
    fn exponential_numbers_are_accurate_at_both_ends() {
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-14;
        assert!(near(exponential(0, 0), 0.5 / 2f64.powi(64)));
        assert!(near(exponential(1 << 31, 0), LN_2));
        assert!(near(exponential(u32::MAX, u32::MAX), 53.0 * LN_2));
        assert!(near(exponential(1 << 20, 12_345), -(-((2f64.powi(52) + 12_345.5) / 2f64.powi(64))).ln_1p()));
        let mut last = 0.0;
        for high in (0..u32::MAX - 100_000).step_by(99_991) {
            let now = exponential(high, 5);
            assert!(now > last, "{high}");
            last = now;
        }
    }
}
