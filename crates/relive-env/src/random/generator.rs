//! numpy's newer `Generator`, as created by `default_rng`.

use super::pcg64::Pcg64;
use super::seed_sequence;
use crate::state::State;

/// The stream of numpy's `default_rng(seed)`, number for number.
///
/// ```
/// use relive_env::random::Generator;
/// let mut stream = Generator::new(42);
/// assert_eq!(stream.random(), 0.7739560485559633);
/// assert_eq!(stream.uniform(-0.05, 0.05), -0.006112156024794771);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    bits: Pcg64,
}

impl Generator {
    /// Creates the stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let [a, b, c, d] = seed_sequence::generate(seed);
        let join = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        Self { bits: Pcg64::new(join(a, b), join(c, d)) }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.bits.next_u64()
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn random(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Returns a number in `[low, high)`.
    #[inline]
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// Returns a number in `0..count`, or 0 if that range is empty. This method is fast, and is not one of numpy's
    /// methods. Probabilities deviate from uniform by less than one in 2³².
    #[inline]
    pub fn below(&mut self, count: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(count)) >> 32) as u32
    }

    /// Visits the state on which the stream's future depends.
    pub fn state(&mut self, state: &mut State<'_>) {
        self.bits.state(state);
    }
}
