//! Draws shards in proportion to their weights.

use rand_core::Rng;
use smallvec::SmallVec;

use crate::table::Published;

/// The number of shards up to which a sample needs no allocation.
const USUAL_SHARDS: usize = 8;

/// The weights of all shards, read at approximately the same time.
#[derive(Debug, Default)]
pub(super) struct Weights {
    items: SmallVec<[u64; USUAL_SHARDS]>,
    weights: SmallVec<[f64; USUAL_SHARDS]>,
    /// The number of items.
    pub(super) size: u64,
    total: f64,
}

impl Weights {
    pub(super) fn published<'a>(shards: impl Iterator<Item = &'a Published>) -> Self {
        Self::of(shards.map(|shard| (shard.items(), shard.weight())))
    }

    /// Returns the weights, given each shard's number of items and sum of weights.
    pub(super) fn of(shards: impl Iterator<Item = (u64, f64)>) -> Self {
        let (items, weights) = shards.unzip();
        let mut all = Self { items, weights, ..Self::default() };
        all.size = all.items.iter().sum();
        all.total = all.weights.iter().sum();
        if all.total == 0.0 {
            // If no item has a positive weight, all items are equally likely, as within a shard.
            all.weights = all.items.iter().map(|&items| items as f64).collect();
            all.total = all.size as f64;
        } else if all.total.is_infinite() {
            all.weights.iter_mut().for_each(|weight| *weight *= SCALE);
            all.total = all.weights.iter().sum();
        }
        all
    }

    /// Draws a shard in proportion to the weights. Every drawn shard has items.
    pub(super) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        let mut at = (rng.next_u64() >> 11) as f64 * STEP * self.total;
        let mut last = 0;
        for (shard, &weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            last = shard;
            if at < weight {
                break;
            }
            at -= weight;
        }
        last
    }

    /// Returns the probability of drawing a shard.
    pub(super) fn share(&self, shard: usize) -> f64 {
        self.weights.get(shard).map_or(0.0, |weight| weight / self.total)
    }

    /// Returns the number of items in the other shards.
    pub(super) fn others(&self, shard: usize) -> u64 {
        self.size - self.items.get(shard).copied().unwrap_or(0)
    }

    /// Sets the number of items of a shard. The probability of drawing it stays the same.
    pub(super) fn set_items(&mut self, shard: usize, items: u64) {
        if let Some(entry) = self.items.get_mut(shard) {
            self.size = self.size - *entry + items;
            *entry = items;
        }
    }
}

/// A factor that keeps the sum of finite weights finite, for up to the maximum number of shards.
const SCALE: f64 = 1.0 / 128.0;

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    fn drawn(shards: &[(u64, f64)], draws: u32) -> Vec<u32> {
        let weights = Weights::of(shards.iter().copied());
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut counts = vec![0; shards.len()];
        (0..draws).for_each(|_| counts[weights.draw(&mut rng)] += 1);
        counts
    }

    #[test]
    fn shards_are_drawn_by_weight() {
        let counts = drawn(&[(1, 1.0), (0, 0.0), (9, 3.0)], 40_000);
        // The standard deviation is 87.
        assert!(counts[0].abs_diff(10_000) < 400 && counts[1] == 0 && counts[2] == 40_000 - counts[0]);
        let weights = Weights::of([(1, 1.0), (0, 0.0), (9, 3.0)].into_iter());
        assert_eq!([0, 1, 2].map(|shard| weights.share(shard)), [0.25, 0.0, 0.75]);
        assert_eq!((weights.size, weights.others(2)), (10, 1));
    }

    #[test]
    fn without_weights_shards_are_drawn_by_their_items() {
        let counts = drawn(&[(1, 0.0), (3, 0.0), (0, 0.0)], 40_000);
        assert!(counts[0].abs_diff(10_000) < 400 && counts[2] == 0, "{counts:?}");
    }

    #[test]
    fn the_largest_weights_still_have_finite_shares() {
        let most = relive_table::selector::MAX_TOTAL_WEIGHT;
        let weights = Weights::of([(1, most); 64].into_iter());
        assert_eq!(weights.share(63), 1.0 / 64.0);
        let counts = drawn(&[(1, most), (1, most), (1, most)], 3_000);
        assert!(counts.iter().all(|count| count.abs_diff(1_000) < 200), "{counts:?}");
    }
}
