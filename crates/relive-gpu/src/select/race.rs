//! Weighted selection without replacement, as a race.
//!
//! Every index i is assigned an exponentially distributed number E and the arrival time E / mass; the first k to arrive
//! are selected. This is the Gumbel trick in another form: -ln(E) has the Gumbel distribution, so the order by E /
//! mass, smallest first, is the order by log(mass) - ln(E), largest first. It needs one logarithm instead of three.
//! (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006; Kool et al., 2019, for Gumbel.)
//!
//! E = -ln(1 - c), and c has 64 bits: 32 from one stream and 32 from another. Since E ≥ c, an index whose high bits
//! alone are too large for its mass can no longer be selected. Only the few other indices need the low bits and a
//! logarithm.

use super::math;
use super::philox::{Numbers, Stream};
use super::smallest::Smallest;
use super::sums::TILE;

/// The number of four-word blocks that are computed together: as many as a tile needs.
const BLOCKS: usize = TILE / 4;

/// A factor that covers all rounding errors of the bound.
const ROOM: f64 = 1.0 + 1e-5;

/// Returns the arrival time as the bits of an f64. Times are positive, so the bits have the same order.
#[inline(always)]
pub(crate) fn key(numbers: &Numbers, high: u32, index: u64, mass: f32) -> u64 {
    let low = numbers.word(Stream::RaceLow, index);
    (math::exponential(high, low) / f64::from(mass)).to_bits()
}

/// Offers all indices of `masses` that may still be among the first to arrive; `first` is the global index of
/// `masses[0]`.
#[inline(always)]
pub(crate) fn scan(numbers: &Numbers, first: u64, masses: &[f32], smallest: &mut Smallest) {
    if !first.is_multiple_of(4) {
        // Blocks start at multiples of four; the indices before the next block are processed one by one.
        let odd = masses.len().min(4 - usize::from(first.to_le_bytes()[0] & 3));
        for (index, mass) in (first..).zip(&masses[..odd]) {
            offer(numbers, numbers.word(Stream::RaceHigh, index), index, *mass, smallest);
        }
        return scan_aligned(numbers, first + odd as u64, &masses[odd..], smallest);
    }
    scan_aligned(numbers, first, masses, smallest);
}

#[inline(always)]
fn scan_aligned(numbers: &Numbers, first: u64, masses: &[f32], smallest: &mut Smallest) {
    let mut words = [[0u32; BLOCKS]; 4];
    for (part, masses) in masses.chunks(TILE).enumerate() {
        let first = first + (part * TILE) as u64;
        numbers.words(Stream::RaceHigh, first / 4, &mut words);
        // 24 bits of the number are exact in f32, and so is the comparison below, except for the product, which the
        // factor covers.
        let latest = f64::from_bits(smallest.ceiling().min(f64::INFINITY.to_bits()));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a value that is too large becomes infinite, which rejects nothing"
        )]
        let bound = (latest * 16_777_216.0 * ROOM) as f32;
        let (blocks, rest) = masses.as_chunks::<4>();
        for (block, masses) in blocks.iter().enumerate() {
            let high = [words[0][block], words[1][block], words[2][block], words[3][block]];
            let mut near = false;
            for word in 0..4 {
                near |= reaches(high[word], masses[word], bound);
            }
            if near {
                for word in 0..4 {
                    if reaches(high[word], masses[word], bound) {
                        let index = first + (block * 4 + word) as u64;
                        offer(numbers, high[word], index, masses[word], smallest);
                    }
                }
            }
        }
        for (word, mass) in rest.iter().enumerate() {
            let index = first + (blocks.len() * 4 + word) as u64;
            offer(numbers, words[word][blocks.len()], index, *mass, smallest);
        }
    }
}

/// Returns whether an index may arrive before the bound. A mass of 0 times an infinite bound is NaN, for which the
/// comparison returns false.
#[inline(always)]
fn reaches(high: u32, mass: f32, bound: f32) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
    let least = (high >> 8).cast_signed() as f32;
    least <= mass * bound
}

#[inline(always)]
fn offer(numbers: &Numbers, high: u32, index: u64, mass: f32, smallest: &mut Smallest) {
    if mass > 0.0 {
        smallest.offer(key(numbers, high, index, mass), index);
    }
}
