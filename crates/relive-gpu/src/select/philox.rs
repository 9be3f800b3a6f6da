//! Counter-based random numbers: every rank, thread and device can compute any of them.
//!
//! Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): ten rounds
//! of two 32-bit multiplications over a 128-bit counter, with a 64-bit key. `kernels/philox.cuh` is the GPU version.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The step takes 56 bits of the counter, and the stream 8 bits.
pub const MAX_STEP: u64 = (1 << 56) - 1;

/// The purpose of the numbers. Streams with the same seed and step share no counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stream {
    /// One block of 128 bits per draw.
    Draws = 0,
    /// One 32-bit word per index: the high half of its number in a race (see [`super::race`]).
    RaceHigh = 1,
    /// The low half, computed only if the high half does not decide whether an index is selected.
    RaceLow = 2,
}

/// Returns the 128 bits of `counter` under `key`, as four words.
///
/// ```
/// // One of the authors' own test vectors.
/// let block = relive_gpu::select::philox([0, 0, 0, 0], [0, 0]);
/// assert_eq!(block, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
#[must_use]
#[inline(always)]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut block = counter;
    let mut key = key;
    for _ in 0..ROUNDS {
        let (high0, low0) = wide_product(MULTIPLIERS[0], block[0]);
        let (high1, low1) = wide_product(MULTIPLIERS[1], block[2]);
        block = [high1 ^ block[1] ^ key[0], low1, high0 ^ block[3] ^ key[1], low0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    block
}

#[inline(always)]
fn wide_product(a: u32, b: u32) -> (u32, u32) {
    let product = u64::from(a) * u64::from(b);
    (high_word(product), low_word(product))
}

#[expect(clippy::cast_possible_truncation, reason = "only the low half of the 64 bits is wanted")]
#[inline(always)]
pub(crate) fn low_word(value: u64) -> u32 {
    value as u32
}

#[inline(always)]
pub(crate) fn high_word(value: u64) -> u32 {
    low_word(value >> 32)
}

/// The numbers of one seed at one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    key: [u32; 2],
    step: u64,
}

impl Numbers {
    /// `step` is at most [`MAX_STEP`].
    pub(crate) fn new(seed: u64, step: u64) -> Self {
        debug_assert!(step <= MAX_STEP, "a selector refuses steps that do not fit");
        Self { key: [low_word(seed), high_word(seed)], step }
    }

    /// Returns the seed.
    pub(crate) fn seed(&self) -> u64 {
        u64::from(self.key[0]) | u64::from(self.key[1]) << 32
    }

    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    #[inline(always)]
    pub(crate) fn block(&self, stream: Stream, position: u64) -> [u32; 4] {
        let last = high_word(self.step) | (stream as u32) << 24;
        philox([low_word(position), high_word(position), low_word(self.step), last], self.key)
    }

    /// Returns a number in `0..below` from the 128 bits of `position`. Its bias is below 2⁻⁶⁴ of the probability of any
    /// value.
    pub(crate) fn below(&self, position: u64, below: u64) -> u64 {
        let [a, b, c, d] = self.block(Stream::Draws, position).map(u128::from);
        let low = ((a | b << 32) * u128::from(below)) >> 64;
        let high = (c | d << 32) * u128::from(below);
        ((high + low) >> 64) as u64
    }

    /// Returns the word of `index` in a stream of words.
    pub(crate) fn word(&self, stream: Stream, index: u64) -> u32 {
        let block = self.block(stream, index / 4);
        block[usize::from(low_word(index).to_le_bytes()[0] & 3)]
    }

    /// Computes the words of the indices `4 * first_block ..`, as many as fit into `words`. Computes whole blocks, so
    /// that loops are vectorized.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "each iteration uses one lane of four arrays")]
    pub(crate) fn words<const BLOCKS: usize>(
        &self,
        stream: Stream,
        first_block: u64,
        words: &mut [[u32; BLOCKS]; 4],
    ) {
        // Counters as four arrays, so that each round is one loop over lanes, which the compiler vectorizes.
        let mut lanes = [[0u32; BLOCKS]; 4];
        for lane in 0..BLOCKS {
            let position = first_block + lane as u64;
            lanes[0][lane] = low_word(position);
            lanes[1][lane] = high_word(position);
        }
        lanes[2] = [low_word(self.step); BLOCKS];
        lanes[3] = [high_word(self.step) | (stream as u32) << 24; BLOCKS];
        let mut key = self.key;
        for _ in 0..ROUNDS {
            for lane in 0..BLOCKS {
                let (high0, low0) = wide_product(MULTIPLIERS[0], lanes[0][lane]);
                let (high1, low1) = wide_product(MULTIPLIERS[1], lanes[2][lane]);
                lanes[0][lane] = high1 ^ lanes[1][lane] ^ key[0];
                lanes[2][lane] = high0 ^ lanes[3][lane] ^ key[1];
                lanes[1][lane] = low1;
                lanes[3][lane] = low0;
            }
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        *words = lanes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors published with their implementation (Random123, `kat_vectors`).
    #[test]
    fn philox_matches_the_published_answers() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for (counter, key, answer) in cases {
            assert_eq!(philox(counter, key), answer);
        }
    }

    #[test]
    fn vectorized_blocks_match_single_blocks() {
        let numbers = Numbers::new(0x1234_5678_9abc_def0, 77 + (5 << 32));
        let first = (1 << 32) - 3;
        let mut words = [[0; 8]; 4];
        numbers.words(Stream::RaceHigh, first, &mut words);
        for index in 4 * first..4 * (first + 8) {
            let position = index - 4 * first;
            let block = numbers.block(Stream::RaceHigh, index / 4);
            let [lane, word] = [position / 4, position % 4].map(|number| usize::try_from(number).unwrap());
            assert_eq!(words[word][lane], block[word]);
            assert_eq!(numbers.word(Stream::RaceHigh, index), block[word]);
        }
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let numbers = Numbers::new(1, 2);
        assert!((0..100).all(|position| numbers.below(position, 1) == 0));
        let mut counts = [0u32; 7];
        for position in 0..70_000 {
            counts[usize::try_from(numbers.below(position, 7)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        let largest = (0..1_000).map(|position| numbers.below(position, u64::MAX)).max().unwrap();
        assert!(largest > u64::MAX / 1_000 * 990);
    }
}
