//! The shards of a table, and their common state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{
    Common, ConfigError, RateLimiterConfig, Table, TableConfig, TableCounters, TableSnapshot,
};
use relive_tensor::ChunkTotals;
use smallvec::SmallVec;

use super::placement::{divide, shard_of};
use super::queue::RequestQueue;
use crate::error::EngineError;
use crate::memory::Memory;
use crate::sync::{Mutex, MutexGuard, wall_clock};
use crate::table::{AfterUnlock, Change, Published, State, TableCore};

/// A table in several shards.
pub(crate) struct ShardedTable {
    /// The rules of the whole table.
    pub(super) config: Arc<TableConfig>,
    /// At least one.
    pub(super) cores: Vec<TableCore>,
    pub(super) queue: RequestQueue,
    /// Seeds a random stream for each sample request.
    pub(super) rng: Mutex<Xoshiro256PlusPlus>,
    /// The counters that the shards share. To replace them, lock this before locking all shards.
    common: Mutex<Common>,
}

impl ShardedTable {
    /// Creates an empty table.
    ///
    /// # Errors
    /// A sharded table cannot enforce the rules.
    pub(crate) fn new(
        config: TableConfig,
        rng: Xoshiro256PlusPlus,
        memory: &Arc<Memory>,
    ) -> Result<Self, ConfigError> {
        config.validate_ranges()?;
        let held = vec![0; config.shards as usize];
        let common = Common::new(Arc::clone(memory.ledger()), held.len());
        let shard = |(shard, size)| Table::shard(rules_of_shard(&config, size), &common, shard);
        let shards = divide(config.max_size, &held)
            .into_iter()
            .enumerate()
            .map(shard)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of(config, common, shards, rng, memory))
    }

    /// Returns a table that consists of the given shards.
    pub(super) fn of(
        config: TableConfig,
        common: Common,
        shards: Vec<Table>,
        mut rng: Xoshiro256PlusPlus,
        memory: &Arc<Memory>,
    ) -> Self {
        let core = |shard| TableCore::shard(shard, Xoshiro256PlusPlus::from_rng(&mut rng), memory);
        let cores = shards.into_iter().map(core).collect();
        let (rng, common) = (Mutex::new(rng), Mutex::new(common));
        Self { config: Arc::new(config), cores, queue: RequestQueue::new(), rng, common }
    }

    pub(crate) fn config(&self) -> &Arc<TableConfig> {
        &self.config
    }

    pub(crate) fn cores(&self) -> &[TableCore] {
        &self.cores
    }

    /// Returns the core that keeps the data that is not divided among the shards.
    pub(crate) fn front(&self) -> &TableCore {
        self.cores.first().expect("a table has at least one shard")
    }

    pub(super) fn place(&self, key: u64) -> usize {
        shard_of(key, self.cores.len())
    }

    /// Returns the core that holds the item with the given key, if the item exists.
    pub(crate) fn core_of(&self, key: u64) -> &TableCore {
        self.cores.get(self.place(key)).unwrap_or(self.front())
    }

    /// Returns whether the selectors accept a priority, judged by the priority alone.
    pub(super) fn accepts(&self, priority: f64) -> bool {
        let Self { config, .. } = self;
        config.sampler.check_priority(priority).and(config.remover.check_priority(priority)).is_ok()
    }

    pub(super) fn published(&self) -> impl Iterator<Item = &Published> {
        self.cores.iter().filter_map(|core| core.shared.published.as_ref())
    }

    /// Locks all shards, in the order that all code uses.
    pub(super) fn lock_all(&self) -> SmallVec<[MutexGuard<'_, State>; 8]> {
        self.cores.iter().map(|core| core.shared.state.lock()).collect()
    }

    /// See [`TableHandle::reset`](crate::TableHandle::reset). All shards are locked together.
    pub(crate) fn reset(&self) -> Result<(), EngineError> {
        let mut common = self.common.lock();
        let mut states = self.lock_all();
        let mut afters: Vec<AfterUnlock> = states.iter().map(|_| AfterUnlock::default()).collect();
        let now = wall_clock();
        for (state, after) in states.iter_mut().zip(&mut afters) {
            Change { state, after, now }.check_open()?;
        }
        *common = common.emptied();
        let shards = states.iter_mut().zip(&mut afters).zip(self.published());
        for (shard, ((state, after), published)) in shards.enumerate() {
            state.table.reset_shard(&common, shard, &mut after.freed);
            published.publish(&state.table);
        }
        self.front().shared.undelivered.store(0, Ordering::Relaxed);
        drop(states);
        drop(common);
        self.cores.iter().zip(afters).for_each(|(core, after)| core.settle(after));
        Ok(())
    }

    /// Returns the chunks of all items, each counted once.
    pub(crate) fn bytes(&self) -> ChunkTotals {
        self.common.lock().bytes()
    }

    /// Merges the next `parts`, which are the snapshots of this table's shards.
    pub(crate) fn merged(&self, parts: &mut impl Iterator<Item = TableSnapshot>) -> Option<TableSnapshot> {
        let mut whole = parts.next()?;
        for part in parts.take(self.cores.len() - 1) {
            whole.counters = sum(whole.counters, part.counters);
            whole.items.extend(part.items);
        }
        Some(TableSnapshot { config: Arc::clone(&self.config), ..whole })
    }
}

/// Returns the rules of a shard, which allow every operation; the rate limiter applies to the whole table.
pub(super) fn rules_of_shard(config: &TableConfig, max_size: u64) -> TableConfig {
    let rate_limiter = RateLimiterConfig { min_size_to_sample: 1, ..config.rate_limiter };
    TableConfig { max_size, rate_limiter, shards: 1, ..config.clone() }
}

fn sum(a: TableCounters, b: TableCounters) -> TableCounters {
    TableCounters {
        inserts: a.inserts + b.inserts,
        samples: a.samples + b.samples,
        deletes: a.deletes + b.deletes,
        deleted_episodes: a.deleted_episodes + b.deleted_episodes,
        unique_samples: a.unique_samples + b.unique_samples,
    }
}
