//! Branch-free scalar functions, so that loops over them can be vectorized, and a function that runs such loops.
//! Results are within two units in the last place of f32, unless a function states another bound.

use pulp::WithSimd;

/// Runs a loop compiled for the widest vector instructions that the processor supports.
#[inline]
pub(crate) fn wide<W: WithSimd>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}

/// 1.5·2²³: adding it rounds a small f32 to a whole number.
const ROUNDER: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Returns eˣ, by Cody and Waite's reduction and Cephes' polynomial. Saturates instead of overflowing.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.3, 88.3);
    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5e-1;
    // The low bits of `rounded` are the integer. A cast from float to integer would not be vectorized.
    let power = f32::from_bits(rounded.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23);
    (p * r * r + r + 1.0) * power
}

/// Returns 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Returns the hyperbolic tangent, within three units in the last place: Eigen's quotient of two polynomials
/// (`ptanh_float`), with fused multiply-adds. The bits are the same on every processor. From x = 7.9 on, the value
/// stays two units below 1.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let x = x.clamp(-7.905_311, 7.905_311);
    let z = x * x;
    let p = (-2.760_768_4e-16_f32).mul_add(z, 2.000_188e-13);
    let p = p.mul_add(z, -8.604_672e-11);
    let p = p.mul_add(z, 5.122_297e-8);
    let p = p.mul_add(z, 1.485_722_4e-5);
    let p = p.mul_add(z, 6.372_619_4e-4);
    let p = p.mul_add(z, 4.893_524_6e-3);
    let q = 1.198_258_4e-6_f32.mul_add(z, 1.185_347_1e-4);
    let q = q.mul_add(z, 2.268_434_6e-3);
    let q = q.mul_add(z, 4.893_525e-3);
    p * x / q
}

/// Returns ln(1 + eˣ), exact for large magnitudes.
pub(crate) fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, ours: fn(f32) -> f32, theirs: fn(f64) -> f64, range: (f32, f32), relative: f64) {
        let n = 200_000_u32;
        for i in 0..=n {
            let share = f64::from(i) / f64::from(n);
            #[expect(clippy::cast_possible_truncation)]
            let x = (f64::from(range.0) + share * f64::from(range.1 - range.0)) as f32;
            let (got, want) = (f64::from(ours(x)), theirs(f64::from(x)));
            assert!((got - want).abs() <= relative * want.abs(), "{name}({x}) = {got}, not {want}");
        }
    }

    #[test]
    fn functions_meet_their_stated_accuracy() {
        check("exp", exp, f64::exp, (-87.0, 88.0), 2.4e-7);
        check("tanh", tanh, f64::tanh, (-20.0, 20.0), 3e-7);
        check("tanh", tanh, f64::tanh, (-0.7, 0.7), 3e-7);
        check("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp()), (-30.0, 30.0), 3.6e-7);
        check("softplus", softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), (-30.0, 30.0), 2.4e-7);
        assert_eq!(tanh(0.0), 0.0);
        assert!(exp(-1e9) < 1e-37 && exp(1e9) > 1e38);
    }
}
