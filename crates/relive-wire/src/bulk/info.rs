//! Information about each sample of a batch, as consecutive arrays of numbers.

use std::ops::Range;

use super::aligned;

/// Information about one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchInfo {
    /// The item's key.
    pub key: u64,
    /// The probability with which the item was sampled.
    pub probability: f64,
    /// Its priority.
    pub priority: f64,
    /// The number of items in the table at that moment.
    pub table_size: u64,
    /// When the item was inserted, in nanoseconds since 1970.
    pub inserted_at: i64,
    /// The number of times that the item has been sampled.
    pub times_sampled: i32,
    /// Whether the rate limiter held the sample back.
    pub rate_limited: bool,
}

/// The layout of a batch's arrays: key, probability, priority, table size and insertion time (8 bytes each), times
/// sampled (4 bytes), rate limited (1 byte); little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InfoLayout {
    samples: usize,
}

/// The number of arrays with elements of eight bytes.
const WIDE: usize = 5;

impl InfoLayout {
    /// Returns the layout for `samples` samples.
    #[must_use]
    pub fn of(samples: usize) -> Self {
        Self { samples }
    }

    /// Returns the number of bytes in all arrays, up to the beginning of the data.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        aligned(self.samples.saturating_mul(WIDE * 8 + 4 + 1))
    }

    /// Writes the arrays.
    pub fn write(&self, infos: impl ExactSizeIterator<Item = BatchInfo>, out: &mut [u8]) {
        for (at, info) in infos.enumerate() {
            self.put(out, 0, at, info.key.to_le_bytes());
            self.put(out, 1, at, info.probability.to_le_bytes());
            self.put(out, 2, at, info.priority.to_le_bytes());
            self.put(out, 3, at, info.table_size.to_le_bytes());
            self.put(out, 4, at, info.inserted_at.to_le_bytes());
            put(out, self.samples * WIDE * 8 + at * 4, info.times_sampled.to_le_bytes());
            put(out, self.samples * (WIDE * 8 + 4) + at, [u8::from(info.rate_limited)]);
        }
    }

    /// Reads the information about each sample. Returns nothing if there are too few `bytes`.
    pub fn read<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = BatchInfo> + use<'b> {
        let samples = self.samples;
        let wide = |array| elements::<8>(bytes, array * samples * 8, samples);
        let [keys, probabilities, priorities, sizes, inserts] = [0, 1, 2, 3, 4].map(wide);
        let times = elements::<4>(bytes, samples * WIDE * 8, samples);
        let limited = elements::<1>(bytes, samples * (WIDE * 8 + 4), samples);
        let wide = keys.iter().zip(probabilities).zip(priorities).zip(sizes).zip(inserts);
        let all = wide.zip(times.iter().zip(limited));
        all.map(|(((((key, probability), priority), size), inserted), (times, limited))| BatchInfo {
            key: u64::from_le_bytes(*key),
            probability: f64::from_le_bytes(*probability),
            priority: f64::from_le_bytes(*priority),
            table_size: u64::from_le_bytes(*size),
            inserted_at: i64::from_le_bytes(*inserted),
            times_sampled: i32::from_le_bytes(*times),
            rate_limited: *limited != [0],
        })
    }

    fn put(&self, out: &mut [u8], array: usize, at: usize, value: [u8; 8]) {
        put(out, (array * self.samples + at) * 8, value);
    }
}

fn range(start: usize, len: usize) -> Range<usize> {
    start..start.saturating_add(len)
}

fn put<const N: usize>(out: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = out.get_mut(range(at, N)) {
        place.copy_from_slice(&value);
    }
}

/// Returns the elements of an array, or nothing if there are too few bytes.
fn elements<const N: usize>(bytes: &[u8], start: usize, count: usize) -> &[[u8; N]] {
    bytes.get(range(start, count.saturating_mul(N))).unwrap_or_default().as_chunks().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_infos_round_trip() {
        let infos: Vec<BatchInfo> = (0..5_u8)
            .map(|n| BatchInfo {
                key: u64::from(n) << 60,
                probability: 1.0 / f64::from(n + 1),
                priority: f64::from(n),
                table_size: 99,
                inserted_at: -i64::from(n),
                times_sampled: i32::from(n) - 2,
                rate_limited: n % 2 == 0,
            })
            .collect();
        let layout = InfoLayout::of(infos.len());
        let mut bytes = vec![0xff; layout.size_bytes()];
        layout.write(infos.iter().copied(), &mut bytes);
        assert_eq!(layout.read(&bytes).collect::<Vec<_>>(), infos);
        assert_eq!(layout.read(&bytes[..8]).count(), 0);
    }
}
