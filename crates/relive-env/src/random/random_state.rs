//! numpy's legacy `RandomState`.

use super::mt19937::Mt19937;
use crate::error::{EnvError, Mismatch};
use crate::state::State;

/// The product of number and probability above which numpy draws binomial numbers with another algorithm.
const MAX_INVERSION: f64 = 30.0;

/// The stream of numpy's `RandomState(seed)`, number for number.
///
/// ```
/// use relive_env::random::RandomState;
/// let mut stream = RandomState::new(42);
/// assert_eq!(stream.random_sample(), 0.3745401188473625);
/// assert_eq!(stream.randint(0, 10), 7);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RandomState {
    bits: Mt19937,
    /// The second number of the last normal pair.
    gauss: Option<f64>,
}

impl RandomState {
    /// Creates the stream of a seed.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self { bits: Mt19937::new(seed), gauss: None }
    }

    /// Returns 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.bits.next_u32()
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn random_sample(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// Returns a number in `[low, high)`.
    #[inline]
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random_sample()
    }

    /// Returns an integer in `low..high`, or `low` if the range is empty. If there is only one possible value, nothing
    /// is drawn.
    #[inline]
    pub fn randint(&mut self, low: i64, high: i64) -> i64 {
        let range = high.wrapping_sub(low).cast_unsigned();
        if high <= low { low } else { low.wrapping_add_unsigned(self.masked(range - 1)) }
    }

    /// Returns an integer in `0..=max`. Larger integers are rejected and drawn again.
    #[inline]
    fn masked(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let mask = u64::MAX >> max.leading_zeros();
        loop {
            let drawn = match u32::try_from(max) {
                Ok(_) => u64::from(self.next_u32()),
                Err(_) => (u64::from(self.next_u32()) << 32) | u64::from(self.next_u32()),
            } & mask;
            if drawn <= max {
                return drawn;
            }
        }
    }

    /// Returns whether an event with probability `p` occurs: `binomial(1, p)`.
    #[inline]
    pub fn bernoulli(&mut self, p: f64) -> bool {
        if p == 0.5 {
            // The result that the general algorithm would return in this case.
            self.random_sample() > 0.5
        } else if p < 0.5 {
            self.inversion(1, p) == 1
        } else {
            self.inversion(1, 1.0 - p) == 0
        }
    }

    /// Returns the number of times that an event with probability `p` occurs in `n` trials.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if `p` is not a probability, or if the smaller of the expected numbers of hits and misses
    /// is above 30. In the latter case, numpy uses another algorithm, which no environment here needs.
    pub fn binomial(&mut self, n: u32, p: f64) -> Result<u32, EnvError> {
        let rare = p.min(1.0 - p);
        if !(0.0..=1.0).contains(&p) || rare * f64::from(n) > MAX_INVERSION {
            let expected = format_args!("a chance, and at most {MAX_INVERSION} to expect");
            return Err(EnvError::Setting(Mismatch::boxed(
                "binomial",
                expected,
                format_args!("{n} times {p}"),
            )));
        }
        Ok(if p <= 0.5 { self.inversion(n, p) } else { n - self.inversion(n, 1.0 - p) })
    }

    /// Sums the distribution until the sum exceeds a uniform number.
    fn inversion(&mut self, n: u32, p: f64) -> u32 {
        if n == 0 || p == 0.0 {
            return 0;
        }
        let (count, q) = (f64::from(n), 1.0 - p);
        let start = (count * q.ln()).exp();
        let bound = count.min(count * p + 10.0 * (count * p * q + 1.0).sqrt()).floor();
        let (mut hits, mut chance, mut left) = (0_u32, start, self.random_sample());
        while left > chance {
            hits += 1;
            let h = f64::from(hits);
            if h > bound {
                (hits, chance, left) = (0, start, self.random_sample());
            } else {
                left -= chance;
                chance = ((count - h + 1.0) * p * chance) / (h * q);
            }
        }
        hits
    }

    /// Returns a sample from the standard normal distribution, by Marsaglia's polar method.
    pub fn standard_normal(&mut self) -> f64 {
        if let Some(second) = self.gauss.take() {
            return second;
        }
        loop {
            let x = 2.0 * self.random_sample() - 1.0;
            let y = 2.0 * self.random_sample() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.gauss = Some(factor * x);
                return factor * y;
            }
        }
    }

    /// Shuffles values in place.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.masked(last as u64);
            values.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }

    /// Returns the numbers `0..n` in a random order.
    #[must_use]
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }

    /// Returns an index into `weights`, with probability proportional to its weight.
    pub fn choice_weighted(&mut self, weights: &[f64]) -> usize {
        let sums: Vec<f64> = weights
            .iter()
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let total = sums.last().copied().unwrap_or(1.0);
        let drawn = self.random_sample();
        sums.partition_point(|sum| sum / total <= drawn)
    }

    /// Visits the state on which the stream's future depends.
    pub fn state(&mut self, state: &mut State<'_>) {
        self.bits.state(state);
        let (mut cached, mut value) = (self.gauss.is_some(), self.gauss.unwrap_or(0.0));
        state.field(&mut cached);
        state.field(&mut value);
        self.gauss = cached.then_some(value);
    }
}
