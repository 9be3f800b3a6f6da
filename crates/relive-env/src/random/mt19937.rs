//! The Mersenne Twister (Matsumoto and Nishimura, 1998), seeded with one number.

use crate::state::State;

const LENGTH: usize = 624;
/// The position at which all words are used up, so that the next call generates new words.
const USED_UP: u32 = 624;
const SHIFT: usize = 397;
const UPPER: u32 = 0x8000_0000;
const TWIST: u32 = 0x9908_b0df;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mt19937 {
    words: [u32; LENGTH],
    /// The number of words used since the last generation.
    used: u32,
}

impl Mt19937 {
    pub(super) fn new(seed: u32) -> Self {
        let mut words = [seed; LENGTH];
        let mut last = seed;
        for (word, index) in words.iter_mut().zip(0_u32..).skip(1) {
            last = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(index);
            *word = last;
        }
        Self { words, used: USED_UP }
    }

    #[inline]
    pub(super) fn next_u32(&mut self) -> u32 {
        let word = match self.words.get(self.used as usize) {
            Some(word) => *word,
            None => self.turn(),
        };
        self.used += 1;
        let word = word ^ (word >> 11);
        let word = word ^ ((word << 7) & 0x9d2c_5680);
        let word = word ^ ((word << 15) & 0xefc6_0000);
        word ^ (word >> 18)
    }

    /// Generates the next words, and returns the first word.
    #[cold]
    fn turn(&mut self) -> u32 {
        let words = &mut self.words;
        for index in 0..LENGTH - SHIFT {
            words[index] = words[index + SHIFT] ^ twist(words[index], words[index + 1]);
        }
        for index in LENGTH - SHIFT..LENGTH - 1 {
            words[index] = words[index + SHIFT - LENGTH] ^ twist(words[index], words[index + 1]);
        }
        words[LENGTH - 1] = words[SHIFT - 1] ^ twist(words[LENGTH - 1], words[0]);
        self.used = 0;
        self.words[0]
    }

    pub(super) fn state(&mut self, state: &mut State<'_>) {
        state.fields(&mut self.words);
        state.field(&mut self.used);
    }
}

#[inline]
fn twist(word: u32, next: u32) -> u32 {
    let joined = (word & UPPER) | (next & !UPPER);
    let odd = if joined & 1 == 1 { TWIST } else { 0 };
    (joined >> 1) ^ odd
}
