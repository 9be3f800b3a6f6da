//! Finds a good chunk length while steps are written.

use std::collections::VecDeque;

/// The number of items required for a score.
const ITEMS: usize = 10;
/// The number of chunks required for a score.
const CHUNKS: usize = 5;
/// The increment of the length.
const GROW: u32 = 2;
/// The decrement of the length.
const SHRINK: u32 = 1;
/// The largest relative deviation of the measured mean length from the current length at which a score still counts.
const TOLERANCE: f64 = 0.25;

/// The properties of an item's chunk that an [`AutoTuner`] uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkStatistic {
    /// The key of the chunk.
    pub key: u64,
    /// The number of rows in the chunk, at least 1.
    pub rows: u32,
    /// The size of the chunk's message on the wire, in bytes.
    pub size_bytes: u64,
}

/// Finds the chunk length with the lowest cost for a column, as dm-reverb does.
///
/// The cost of a length is the number of bytes stored per step plus the weighted number of bytes sent per step of an
/// item: longer chunks compress better, while shorter chunks contain fewer steps that an item does not need. The tuner
/// computes a score after every 10 items and 5 new chunks. If the score is better than the last one, the length
/// continues to change in the same direction (+2 or -1); otherwise, the direction reverses.
///
/// ```
/// use relive_tensor::{AutoTuner, ChunkStatistic};
/// let mut tuner = AutoTuner::new(10, 1.0);
/// for key in 0..10 {
///     assert_eq!(tuner.max_chunk_length(), 1);
///     tuner.record_item(1, &[ChunkStatistic { key, rows: 1, size_bytes: 100 }]);
/// }
/// assert_eq!(tuner.max_chunk_length(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct AutoTuner {
    num_keep_alive_refs: u32,
    throughput_weight: f64,
    max_chunk_length: u32,
    items: VecDeque<Sample>,
    chunks: VecDeque<(u64, Sample)>,
    last: Option<Score>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    bytes_per_step: f64,
    length: f64,
}

#[derive(Clone, Copy, Debug)]
struct Score {
    average_length: f64,
    cost: f64,
}

impl AutoTuner {
    /// Creates a tuner that starts with chunks of one step and never exceeds `num_keep_alive_refs`.
    #[must_use]
    pub fn new(num_keep_alive_refs: u32, throughput_weight: f64) -> Self {
        Self {
            num_keep_alive_refs: num_keep_alive_refs.max(1),
            throughput_weight,
            max_chunk_length: 1,
            items: VecDeque::with_capacity(ITEMS),
            chunks: VecDeque::with_capacity(CHUNKS),
            last: None,
        }
    }

    /// Returns the current length.
    #[must_use]
    pub fn max_chunk_length(&self) -> u32 {
        self.max_chunk_length
    }

    /// Records an item that is about to be sent: the number of its `cells` in this column, and the distinct chunks that
    /// contain them.
    pub fn record_item(&mut self, cells: u32, chunks: &[ChunkStatistic]) {
        if cells == 0 || chunks.is_empty() {
            return;
        }
        let sent: f64 = chunks.iter().map(|chunk| to_f64(chunk.size_bytes)).sum();
        let length = mean(chunks.iter().map(|chunk| f64::from(chunk.rows)));
        push(&mut self.items, ITEMS, Sample { bytes_per_step: sent / f64::from(cells), length });
        for chunk in chunks.iter().filter(|chunk| chunk.rows > 0) {
            if self.chunks.iter().all(|(key, _)| *key != chunk.key) {
                let length = f64::from(chunk.rows);
                let bytes_per_step = to_f64(chunk.size_bytes) / length;
                push(&mut self.chunks, CHUNKS, (chunk.key, Sample { bytes_per_step, length }));
            }
        }
        if self.items.len() == ITEMS && self.chunks.len() == CHUNKS {
            let score = self.take_score();
            self.adjust(score);
        }
    }

    /// Returns the score of the recorded items and chunks, and discards the records.
    fn take_score(&mut self) -> Score {
        let chunks = || self.chunks.iter().map(|(_, sample)| *sample);
        let average_length = mean(self.items.iter().copied().chain(chunks()).map(|sample| sample.length));
        let stored = mean(chunks().map(|sample| sample.bytes_per_step));
        let sent = mean(self.items.iter().map(|sample| sample.bytes_per_step));
        self.items.clear();
        self.chunks.clear();
        Score { average_length, cost: stored + self.throughput_weight * sent }
    }

    fn adjust(&mut self, score: Score) {
        if (score.average_length - f64::from(self.max_chunk_length)).abs() > TOLERANCE {
            return;
        }
        let Some(last) = self.last else {
            self.last = Some(score);
            self.max_chunk_length = self.longer();
            return;
        };
        let better = score.cost < last.cost;
        let longer = score.average_length > last.average_length;
        let length = if better == longer {
            self.longer()
        } else {
            self.max_chunk_length.saturating_sub(SHRINK).max(1)
        };
        if length != self.max_chunk_length {
            self.last = Some(score);
            self.max_chunk_length = length;
        }
    }

    fn longer(&self) -> u32 {
        self.max_chunk_length.saturating_add(GROW).min(self.num_keep_alive_refs)
    }
}

/// Appends to a list that keeps the newest `limit` entries.
fn push<T>(list: &mut VecDeque<T>, limit: usize, entry: T) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(entry);
}

fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0.0), |(sum, count), number| (sum + number, count + 1.0));
    sum / count
}

/// Converts a size to a float. Sizes saturate at 2^32 bytes, which chunks cannot reach.
fn to_f64(size_bytes: u64) -> f64 {
    u32::try_from(size_bytes).map_or(f64::from(u32::MAX), f64::from)
}
