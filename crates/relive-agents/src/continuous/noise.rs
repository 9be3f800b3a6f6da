//! Normal noise for exploration.

use relive_env::State;
use relive_nn::Stream;
use relive_rl::{Result, state};

use crate::streams::Streams;

/// Standard normal noise for each row of a policy, independent for each dimension of an action. With a correlation ρ,
/// the noise is a first-order autoregressive process, ρ times the previous number plus new noise, and stays standard
/// normal. Noise that is correlated over time explores farther (Eberhard et al. 2023).
#[derive(Debug)]
pub(crate) struct Noise {
    correlation: f32,
    streams: Streams,
    dimensions: usize,
    /// The previous numbers, `[rows, dimensions]`, if they are correlated.
    last: Vec<f32>,
}

impl Noise {
    pub(crate) fn new(mut streams: Streams, rows: usize, dimensions: usize, correlation: f32) -> Noise {
        let kept = if correlation > 0.0 { rows * dimensions } else { 0 };
        let mut last = Vec::with_capacity(kept);
        if kept > 0 {
            streams.each().for_each(|stream| last.extend((0..dimensions).map(|_| draw(stream))));
        }
        last.resize(kept, 0.0);
        Noise { correlation, streams, dimensions, last }
    }

    /// Returns a function for each row that draws its numbers one by one.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = impl FnMut() -> f32 + '_> {
        let Noise { correlation, streams, dimensions, last } = self;
        let correlation = *correlation;
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut rest = &mut last[..];
        streams.each().map(move |stream| {
            let width = (*dimensions).min(rest.len());
            let (row, others) = std::mem::take(&mut rest).split_at_mut(width);
            rest = others;
            let mut place = 0;
            move || {
                let drawn = draw(stream);
                let Some(last) = row.get_mut(place) else { return drawn };
                place += 1;
                *last = correlation * *last + fresh * drawn;
                *last
            }
        })
    }

    pub(crate) fn save(&mut self) -> Vec<u8> {
        let mut streams = self.streams.save();
        if self.last.is_empty() {
            return streams;
        }
        let mut bytes = Vec::new();
        let state = &mut State::writer(&mut bytes);
        state.fields(&mut self.last);
        state.bytes(&mut streams);
        bytes
    }

    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        if self.last.is_empty() {
            return self.streams.restore(bytes);
        }
        let mut streams = Vec::new();
        state::restore("a policy", bytes, |state| {
            state.fields(&mut self.last);
            state.bytes(&mut streams);
        })?;
        self.streams.restore(&streams)
    }
}

/// Returns a sample from the standard normal distribution.
#[expect(clippy::cast_possible_truncation, reason = "actions are float32")]
pub(crate) fn draw(stream: &mut Stream) -> f32 {
    stream.normal() as f32
}

#[cfg(test)]
mod tests {
    use relive_nn::Key;

    use super::*;

    fn noise(correlation: f32) -> Noise {
        let keys: Vec<Key> = (0..2).map(|row| Key::from_seed(1).nth(row)).collect();
        Noise::new(Streams::new(&keys), 2, 2, correlation)
    }

    fn row(noise: &mut Noise, number: usize) -> [f32; 2] {
        let mut found = [0.0; 2];
        for (index, mut draw) in noise.each().enumerate() {
            let drawn = [draw(), draw()];
            if index == number {
                found = drawn;
            }
        }
        found
    }

    #[test]
    fn noise_has_the_requested_correlation_and_variance() {
        for correlation in [0.0_f32, 0.9] {
            let mut noise = noise(correlation);
            let drawn: Vec<f32> = (0..40_000).map(|_| row(&mut noise, 1)[0]).collect();
            let mean =
                |numbers: &mut dyn Iterator<Item = f32>| numbers.map(f64::from).sum::<f64>() / 40_000.0;
            let size = mean(&mut drawn.iter().map(|z| z * z));
            let together = mean(&mut drawn.windows(2).map(|pair| pair[0] * pair[1]));
            assert!((size - 1.0).abs() < 0.1, "{size}");
            assert!((together - f64::from(correlation)).abs() < 0.1, "{together}");
        }
    }

    #[test]
    fn the_first_numbers_have_the_same_variance_as_later_ones() {
        let keys: Vec<Key> = (0..20_000).map(|row| Key::from_seed(1).nth(row)).collect();
        let mut noise = Noise::new(Streams::new(&keys), keys.len(), 1, 0.97);
        let squares: f64 = noise.each().map(|mut draw| f64::from(draw()).powi(2)).sum();
        assert!((squares / 20_000.0 - 1.0).abs() < 0.05, "{squares}");
    }

    #[test]
    fn noise_continues_where_it_was_saved() {
        for correlation in [0.0, 0.5] {
            let mut first = noise(correlation);
            row(&mut first, 0);
            let bytes = first.save();
            let mut second = noise(correlation);
            second.restore(&bytes).unwrap();
            assert_eq!(row(&mut first, 1), row(&mut second, 1));
            assert!(second.restore(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
