//! Random numbers.

use std::error::Error;
use std::fmt;

/// A stream of random numbers. Its state can be saved, so that a resumed run continues with the same numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    state: [u64; 4],
    spare: Option<f64>,
}

impl Stream {
    pub(crate) fn new(state: [u64; 4]) -> Self {
        Self { state, spare: None }
    }

    /// Returns the state of the stream, for a checkpoint.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.spare.is_some())];
        bytes.extend_from_slice(&self.spare.unwrap_or_default().to_le_bytes());
        bytes.extend(self.state.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Restores a stream from the state that [`to_bytes`](Self::to_bytes) returned.
    ///
    /// # Errors
    /// The bytes are not the state of a stream.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NoStream> {
        let damaged = || NoStream { bytes: bytes.len() };
        let (&[has_spare], rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let words: &[[u8; 8]; 5] = rest.as_chunks().0.try_into().map_err(|_| damaged())?;
        if rest.len() != 40 || has_spare > 1 {
            return Err(damaged());
        }
        let [spare, state @ ..] = words.map(u64::from_le_bytes);
        Ok(Self { state, spare: (has_spare == 1).then(|| f64::from_bits(spare)) })
    }

    /// Returns 64 random bits, from Xoshiro256++ (Blackman and Vigna 2019).
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let bits = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        bits
    }

    /// Returns a uniform number in `[0, 1)` with 53 random bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Returns a uniform integer in `0..bound`, without bias (Lemire 2019).
    ///
    /// # Panics
    /// If `bound` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the high and the low half of a product are wanted")]
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below 0");
        let bound = bound as u64;
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as usize;
            }
        }
    }

    /// Returns a sample from the standard normal distribution, drawn with the polar method (Marsaglia and Bray 1964).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (u, v) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let factor = (-2.0 * s.ln() / s).sqrt();
                self.spare = Some(v * factor);
                return u * factor;
            }
        }
    }

    /// Returns a sample from the standard normal distribution; samples farther than 2 from zero are drawn again.
    pub fn truncated_normal(&mut self) -> f64 {
        loop {
            let value = self.normal();
            if value.abs() <= 2.0 {
                return value;
            }
        }
    }
}

/// The error for bytes that are not the state of a [`Stream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoStream {
    bytes: usize,
}

impl fmt::Display for NoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes are not the state of a random stream", self.bytes)
    }
}

impl Error for NoStream {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn streams_match_the_reference_xoshiro_generator() {
        use rand_xoshiro::Xoshiro256PlusPlus;
        use rand_xoshiro::rand_core::{Rng, SeedableRng};
        let mut ours = Key::from_seed(2).stream();
        let seed: Vec<u8> = ours.state.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut theirs = Xoshiro256PlusPlus::from_seed(seed.try_into().unwrap());
        (0..1000).for_each(|_| assert_eq!(ours.bits(), theirs.next_u64()));
    }

    #[test]
    fn a_saved_random_stream_continues() {
        let mut stream = Key::from_seed(2).stream();
        for drawn in 0..4 {
            let mut resumed = Stream::from_bytes(&stream.to_bytes()).unwrap();
            assert_eq!(resumed, stream);
            assert_eq!(resumed.normal().to_bits(), stream.normal().to_bits(), "{drawn}");
        }
        let bytes = stream.to_bytes();
        for bytes in [&bytes[..0], &bytes[..40], &[&bytes[..], &[0]].concat(), &[&[2], &bytes[1..]].concat()]
        {
            assert!(Stream::from_bytes(bytes).is_err());
        }
    }

    #[test]
    fn moments_are_correct() {
        let mut stream = Key::from_seed(5).stream();
        let n = 100_000;
        let moments = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / f64::from(n);
            (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n))
        };
        let (mean, variance) = moments((0..n).map(|_| stream.normal()).collect());
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        // 0.7737 is the variance of a normal distribution truncated at 2.
        let (mean, variance) = moments((0..n).map(|_| stream.truncated_normal()).collect());
        assert!(mean.abs() < 0.02 && (variance - 0.7737).abs() < 0.02, "{mean} {variance}");
        let (mean, variance) = moments((0..n).map(|_| stream.uniform()).collect());
        assert!((mean - 0.5).abs() < 0.01 && (variance - 1.0 / 12.0).abs() < 0.005, "{mean} {variance}");
    }

    #[test]
    fn below_covers_exactly_its_range() {
        let mut stream = Key::from_seed(7).stream();
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[stream.below(5)] += 1);
        assert!(seen.iter().all(|count| (120..280).contains(count)), "{seen:?}");
    }
}
