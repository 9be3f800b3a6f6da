//! Compares single functions of the kernels, compiled for the CPU, with other implementations.

#![expect(unsafe_code, reason = "functions of C")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it does nothing"
)]

use crate::support;
use crate::support::numbers::mixed;
use libloading::{Library, Symbol};
use relive_gpu::select::{philox, power};

fn kernels() -> Option<&'static Library> {
    support::kernels().map_err(|reason| println!("not tested: {reason}")).ok()
}

fn function<T>(library: &'static Library, name: &str) -> Symbol<'static, T> {
    // SAFETY: `launch.h` defines it with this type.
    unsafe { library.get(name.as_bytes()) }.unwrap()
}

#[expect(clippy::cast_possible_truncation, reason = "halves of numbers")]
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Includes bounds near 2⁶⁴, where every carry matters.
#[test]
fn random_numbers_match_the_cpu() {
    let Some(library) = kernels() else { return };
    let below = function::<unsafe extern "C" fn(u64, u64, u64, u64) -> u64>(library, "emulate_number_below");
    let word = function::<unsafe extern "C" fn(u64, u64, u64) -> u32>(library, "emulate_stream_word");
    for number in 0..20_000 {
        let [seed, step, position] = [1, 2, 3].map(|part| mixed(number * 4 + part));
        let step = step >> 8;
        let bound = u64::MAX - (mixed(number) >> (number % 64));
        let [[a, b], [c, d]] = [halves(position), halves(step)];
        let words = philox([a, b, c, d], halves(seed)).map(u128::from);
        let (low, high) = (words[0] | words[1] << 32, words[2] | words[3] << 32);
        let bits = u128::from(bound);
        let expected = (high * bits + ((low * bits) >> 64)) >> 64;
        // SAFETY: plain numbers.
        assert_eq!(u128::from(unsafe { below(seed, step, position, bound) }), expected);

        let [a, b] = halves(position / 4);
        let words = philox([a, b, c, d | 2 << 24], halves(seed));
        // SAFETY: plain numbers.
        assert_eq!(unsafe { word(seed, step, position) }, words[usize::try_from(position % 4).unwrap()]);
    }
}

#[test]
fn powers_match_the_cpu_bit_for_bit() {
    let Some(library) = kernels() else { return };
    let emulated = function::<unsafe extern "C" fn(f32, f32) -> f32>(library, "emulate_power");
    for number in 0..200_000 {
        let [bits, _] = halves(mixed(number));
        let base = f32::from_bits(bits & 0x7fff_ffff);
        if base.is_finite() && base > 0.0 {
            for exponent in [0.0, 0.4, 0.6, 1.0, 3.0] {
                // SAFETY: plain numbers.
                let there = unsafe { emulated(base, exponent) };
                assert_eq!(there.to_bits(), power(base, exponent).to_bits(), "{base}^{exponent}");
            }
        }
    }
}

/// All f16 values, and many f32 values, including those between two f16 values.
#[test]
fn conversions_match_another_implementation() {
    let Some(library) = kernels() else { return };
    let from_f16 = function::<unsafe extern "C" fn(u32) -> u32>(library, "emulate_from_f16");
    let to_f16 = function::<unsafe extern "C" fn(u32) -> u32>(library, "emulate_to_f16");
    let to_bf16 = function::<unsafe extern "C" fn(u32) -> u32>(library, "emulate_to_bf16");
    let check = |bits: u32| {
        let value = f32::from_bits(bits);
        // SAFETY: plain numbers.
        let there = unsafe { [to_f16(bits), to_bf16(bits)] };
        let here = [half::f16::from_f32(value).to_bits(), half::bf16::from_f32(value).to_bits()];
        assert_eq!(there, here.map(u32::from), "{value:e} ({bits:#x})");
    };
    for half in 0..=u16::MAX {
        let value = half::f16::from_bits(half).to_f32();
        // SAFETY: plain numbers.
        assert_eq!(unsafe { from_f16(u32::from(half)) }, value.to_bits(), "{half:#x}");
        for near in [0, 1, u32::MAX, 0xfff, 0x1000, 0x1001, 0x2000] {
            check(value.to_bits().wrapping_add(near));
        }
        check(u32::from(half) << 16 | 0x8000);
    }
    (0..300_000).for_each(|number| check(halves(mixed(number))[0]));
}
