//! Hashing of keys that are random already.

use std::hash::Hasher;

/// Mixes numbers by a multiplication: chunk keys are random, addresses differ in their middle bits. Whoever sends keys made to
/// collide slows down nobody but the reader of his own samples.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct KeyHasher(u64);

/// 2^64 divided by the golden ratio: an odd number whose multiples spread well.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(5) ^ value).wrapping_mul(SPREAD);
        self.0 = mixed ^ (mixed >> 32);
    }
}
