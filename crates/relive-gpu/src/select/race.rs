//! Weighted selection without replacement, as a race.
//!
//! Every index i gets a number E of the exponential distribution, and runs for E / mass: the first k to arrive are
//! selected. That is Gumbel's trick in another form: -ln(E) has Gumbel's distribution, so that the order by E / mass,
//! smallest first, is that by log(mass) - ln(E), largest first. It needs one logarithm where the other form needs
//! three. (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006; Kool et al., 2019, for
//! Gumbel.)
//!
//! E = -ln(1 - c), and c has 64 bits: 32 of one stream and 32 of another. Since E ≥ c, an index whose high bits alone
//! are too large for its mass cannot be selected any more. Only the few others need the low bits and a logarithm.

use super::math;
use super::philox::{Numbers, Stream};
use super::smallest::Smallest;
use super::sums::TILE;

/// Blocks of four words whose numbers are computed together: as many as a tile needs.
const BLOCKS: usize = TILE / 4;

/// A factor above all rounding of the bound.
const ROOM: f64 = 1.0 + 1e-5;

/// The time of arrival, as the bits of an f64: times are positive, and so are in order.
#[inline(always)]
pub(crate) fn key(numbers: &Numbers, high: u32, index: u64, mass: f32) -> u64 {
    let low = numbers.word(Stream::RaceLow, index);
    (math::exponential(high, low) / f64::from(mass)).to_bits()
}

/// Offers all indices of `masses` that may still be among the first; `first` is the global index of the first of them.
#[inline(always)]
pub(crate) fn scan(numbers: &Numbers, first: u64, masses: &[f32], smallest: &mut Smallest) {
    if !first.is_multiple_of(4) {
        // Blocks of four begin at multiples of four: the few before the next one are looked at one by one.
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
        // 24 bits of the number are exact in f32, and so is the comparison below, but for the product: that has room.
        let latest = f64::from_bits(smallest.ceiling().min(f64::INFINITY.to_bits()));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "infinite where it is too large, which rejects nothing"
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

/// Whether an index may arrive before the bound. A mass of 0 times an infinite bound is no number, and compares as
/// false.
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
