//! Random numbers for removal.

/// SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014): 64 bits of state, which a
/// checkpoint saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    /// Continues from a seed, or from the state that [`state`](Self::state) returned.
    pub(crate) fn new(state: u64) -> Self {
        Self(state)
    }

    pub(crate) fn state(self) -> u64 {
        self.0
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which must not be 0; uniform up to a bias of 2^-64 · `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_match_the_paper() {
        // The expected values are from the reference implementation with seed 1234567.
        let mut random = SplitMix::new(1_234_567);
        assert_eq!(
            [(); 3].map(|()| random.next()),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,]
        );
        assert!((0..100).all(|_| random.below(7) < 7));
    }
}
