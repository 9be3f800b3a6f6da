//! PCG XSL RR 128/64 (M. O'Neill, 2014).

use crate::state::State;

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    pub(super) fn new(start: u128, sequence: u128) -> Self {
        let mut stream = Self { state: 0, increment: (sequence << 1) | 1 };
        stream.advance();
        stream.state = stream.state.wrapping_add(start);
        stream.advance();
        stream
    }

    #[inline]
    fn advance(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
    pub(super) fn next_u64(&mut self) -> u64 {
        self.advance();
        let (high, low) = ((self.state >> 64) as u64, self.state as u64);
        (high ^ low).rotate_right((high >> 58) as u32)
    }

    pub(super) fn state(&mut self, state: &mut State<'_>) {
        state.field(&mut self.state);
        state.field(&mut self.increment);
    }
}
