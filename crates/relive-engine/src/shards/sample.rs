//! Samples from shards.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{Sampled, Shortfall};
use smallvec::SmallVec;

use super::sharded::ShardedTable;
use super::weights::Weights;
use crate::error::EngineError;
use crate::table::{AfterUnlock, TableCore, WaitingSample, cost_bytes};

/// The source of the shards' sizes.
#[derive(Debug, Clone, Copy)]
pub(super) enum SizesFrom {
    /// The published values, which may be slightly stale. Nothing is sampled if no shard reports items.
    Published,
    /// The sizes under the shards' locks, read one after the other. If nothing is found, later changes will wake the
    /// request.
    Locked,
}

/// Work to be done after all locks are released.
#[derive(Default)]
pub(super) struct Unsettled(SmallVec<[(usize, AfterUnlock); 8]>);

/// Samples of one shard, to be merged in the order in which the shards were drawn.
type TakenSamples = std::vec::IntoIter<Sampled>;

impl Unsettled {
    fn keep(&mut self, shard: usize, after: AfterUnlock) {
        if !after.is_nothing() {
            self.0.push((shard, after));
        }
    }

    pub(super) fn settle(self, cores: &[TableCore]) {
        for (shard, after) in self.0 {
            if let Some(core) = cores.get(shard) {
                core.settle(after);
            }
        }
    }
}

impl ShardedTable {
    /// Takes samples for a request until the request is complete or no more samples are available.
    ///
    /// Works in rounds: each sample's shard is drawn by the weights that the shards had at the beginning of the round.
    /// If a shard then has fewer items than samples were drawn from it, it provides all of its items, and the remaining
    /// samples are drawn again.
    pub(super) fn take(
        &self,
        request: &mut WaitingSample,
        sizes: SizesFrom,
        left: &mut Unsettled,
    ) -> Result<(), EngineError> {
        let mut rng = None;
        while !request.is_complete() {
            let Some(mut weights) = self.weights(sizes) else { return Ok(()) };
            let stage = request.stage().min(self.allowed(weights.size));
            if stage == 0 {
                return Ok(());
            }
            let rng = rng.get_or_insert_with(|| Xoshiro256PlusPlus::from_rng(&mut *self.rng.lock()));
            let drawn: Vec<usize> = (0..stage).map(|_| weights.draw(rng)).collect();
            let before = request.taken.len();
            let round = self.take_round(&drawn, &mut weights, &mut request.taken, left);
            for sampled in request.taken.iter().skip(before).filter(|_| request.max_bytes < u64::MAX) {
                request.taken_bytes += cost_bytes(&sampled.item.trajectory);
            }
            if round.is_err() {
                // Samples that were taken before the table was closed are delivered.
                return if request.taken.is_empty() { round } else { Ok(()) };
            }
            if request.taken.len() == before && matches!(sizes, SizesFrom::Published) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes a sample from each drawn shard, and appends them in that order.
    fn take_round(
        &self,
        drawn: &[usize],
        weights: &mut Weights,
        out: &mut Vec<Sampled>,
        left: &mut Unsettled,
    ) -> Result<(), EngineError> {
        let mut counts: SmallVec<[usize; 8]> = SmallVec::from_elem(0, self.cores.len());
        for &shard in drawn {
            counts[shard] += 1;
        }
        let mut taken: SmallVec<[TakenSamples; 8]> =
            self.cores.iter().map(|_| Vec::new().into_iter()).collect();
        let mut outcome = Ok(());
        for shard in self.beginning_with(drawn.first().copied().unwrap_or(0)) {
            if counts[shard] > 0 {
                let mut theirs = Vec::with_capacity(counts[shard]);
                outcome = outcome.and(self.take_from(shard, counts[shard], weights, &mut theirs, left));
                taken[shard] = theirs.into_iter();
            }
        }
        out.extend(drawn.iter().filter_map(|&shard| taken[shard].next()));
        outcome
    }

    /// Takes up to `count` samples from one shard, with probabilities and sizes of the whole table.
    fn take_from(
        &self,
        shard: usize,
        count: usize,
        weights: &mut Weights,
        out: &mut Vec<Sampled>,
        left: &mut Unsettled,
    ) -> Result<(), EngineError> {
        let (items, after) = self.cores[shard].take_samples(count, out);
        left.keep(shard, after);
        let (share, others) = (weights.share(shard), weights.others(shard));
        for sampled in out {
            sampled.probability *= share;
            sampled.table_size += others;
        }
        weights.set_items(shard, items?);
        Ok(())
    }

    /// Returns the shards' weights, or `None` if no shard can provide a sample.
    fn weights(&self, sizes: SizesFrom) -> Option<Weights> {
        match sizes {
            SizesFrom::Published => Some(Weights::published(self.published())),
            SizesFrom::Locked => {
                let mut gives = false;
                let weights = Weights::of(self.cores.iter().map(|core| {
                    let state = core.shared.state.lock();
                    gives |= state.table.sample_shortfall().is_none();
                    (state.table.len(), state.table.total_weight())
                }));
                gives.then_some(weights)
            }
        }
    }

    /// Returns the number of samples that the rate limiter allows in a row while the table holds `size` items. Each
    /// sample may be its item's last, so the table may shrink by one item after each sample.
    fn allowed(&self, size: u64) -> usize {
        let required = u64::try_from(self.config.rate_limiter.min_size_to_sample).unwrap_or(0).max(1);
        match size.checked_sub(required) {
            None => 0,
            Some(_) if self.config.max_times_sampled < 1 => usize::MAX,
            Some(more) => usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1),
        }
    }

    /// Returns the condition that blocks one sample while the table holds `size` items.
    pub(super) fn shortfall(&self, size: u64) -> Option<Shortfall> {
        let required = self.config.rate_limiter.min_size_to_sample;
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        (size < required).then_some(Shortfall::MinSize { size, required })
    }
}
