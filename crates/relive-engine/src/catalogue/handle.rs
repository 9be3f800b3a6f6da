//! A handle to a table, shared by many tasks.

use std::sync::Arc;
use std::time::Instant;

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{
    ConfigError, CountError, Extension, Freed, ItemStructure, NewItem, RestoreError, Sampled, Shortfall,
    Table, TableConfig, TableInfo, TableSnapshot,
};
use relive_tensor::Nest;

use crate::error::EngineError;
use crate::memory::{DiskTier, Memory};
use crate::shards::ShardedTable;
use crate::table::{
    Accepted, Confirmations, ItemPage, Mutation, SampleRequest, SampleResult, Slot, TableCore, TableStatus,
};

/// A handle to a table, shared by many tasks; cheap to clone.
#[derive(Clone)]
pub struct TableHandle {
    cores: Cores,
}

/// The implementation of a table: one core or several shards.
#[derive(Clone)]
enum Cores {
    One(TableCore),
    Many(Arc<ShardedTable>),
}

impl TableHandle {
    /// Returns a table without items.
    ///
    /// # Errors
    /// The rules are out of range, or a sharded table has extensions.
    pub(crate) fn empty(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        rng: Xoshiro256PlusPlus,
        memory: &Arc<Memory>,
    ) -> Result<Self, ConfigError> {
        if config.shards != 1 {
            check_extensions(&config, &extensions)?;
            return ShardedTable::new(config, rng, memory).map(Self::of_many);
        }
        let table = Table::in_ledger(config, extensions, Arc::clone(memory.ledger()))?;
        Ok(Self::of_one(TableCore::new(table, rng, memory)))
    }

    /// Returns a table with the state of the given snapshot, and the number of items that were evicted because the
    /// rules allow fewer items.
    ///
    /// # Errors
    /// The errors of [`empty`](Self::empty), or the snapshot contains an impossible state.
    pub(crate) fn restored(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        state: TableSnapshot,
        mut rng: Xoshiro256PlusPlus,
        memory: &Arc<Memory>,
    ) -> Result<(Self, usize), RestoreError> {
        let structure = state.structure.clone();
        if config.shards != 1 {
            check_extensions(&config, &extensions)?;
            let (shards, left) = ShardedTable::restored(config, state, rng, memory)?;
            let table = Self::of_many(shards);
            table.front().shared.columns.restore(structure);
            return Ok((table, left));
        }
        let mut freed = Freed::default();
        let table = Table::restored(config, extensions, memory.ledger(), state, &mut rng, &mut freed)?;
        let core = TableCore::new(table, rng, memory);
        core.shared.columns.restore(structure);
        Ok((Self::of_one(core), freed.len()))
    }

    fn of_one(core: TableCore) -> Self {
        Self { cores: Cores::One(core) }
    }

    fn of_many(shards: ShardedTable) -> Self {
        Self { cores: Cores::Many(Arc::new(shards)) }
    }

    /// Returns the core that holds the item with the given key, if the item exists.
    pub(crate) fn core_of(&self, key: u64) -> &TableCore {
        match &self.cores {
            Cores::One(core) => core,
            Cores::Many(shards) => shards.core_of(key),
        }
    }

    /// Serves the requests that are waiting for changes to a core.
    pub(crate) fn serve_waiters(&self) {
        match &self.cores {
            // A single core has already served its own waiters.
            Cores::One(_) => {}
            Cores::Many(shards) => shards.serve_waiters(),
        }
    }

    pub(crate) fn enqueue_sample(
        &self,
        request: SampleRequest,
        since: Instant,
    ) -> Result<(u64, Arc<Slot<SampleResult>>), EngineError> {
        match &self.cores {
            Cores::One(core) => core.enqueue_sample(request, since),
            Cores::Many(shards) => shards.enqueue_sample(request, since),
        }
    }

    /// Ends a request after its deadline. Returns the samples if the request was served at the last moment.
    pub(crate) fn give_up_sample(&self, id: u64, slot: &Slot<SampleResult>, since: Instant) -> SampleResult {
        match &self.cores {
            Cores::One(core) => core.give_up_sample(id, slot, since),
            Cores::Many(shards) => shards.give_up_sample(id, slot, since),
        }
    }

    /// Withdraws a request. Returns the samples that were already taken for the request.
    pub(crate) fn withdraw_sample(&self, id: u64, slot: &Slot<SampleResult>) -> Vec<Sampled> {
        match &self.cores {
            Cores::One(core) => core.withdraw_sample(id, slot),
            Cores::Many(shards) => shards.withdraw_sample(id, slot),
        }
    }

    /// Returns all cores of the table, always in the same order.
    pub(crate) fn cores(&self) -> &[TableCore] {
        match &self.cores {
            Cores::One(core) => std::slice::from_ref(core),
            Cores::Many(shards) => shards.cores(),
        }
    }

    /// Merges the next `parts`, which are the snapshots of this table's cores. The items are in no particular order.
    pub(crate) fn merged(&self, parts: &mut impl Iterator<Item = TableSnapshot>) -> Option<TableSnapshot> {
        match &self.cores {
            Cores::One(_) => parts.next(),
            Cores::Many(shards) => shards.merged(parts),
        }
    }

    /// Returns the only core, or `None` for a sharded table.
    pub(crate) fn only(&self) -> Option<&TableCore> {
        match &self.cores {
            Cores::One(core) => Some(core),
            Cores::Many(_) => None,
        }
    }

    /// Closes the table permanently.
    pub(crate) fn end(&self, why: &EngineError) {
        match &self.cores {
            Cores::One(core) => core.end(why),
            Cores::Many(shards) => shards.end(why),
        }
    }

    /// Returns the core that keeps the data that is not divided among the cores.
    pub(crate) fn front(&self) -> &TableCore {
        match &self.cores {
            Cores::One(core) => core,
            Cores::Many(shards) => shards.front(),
        }
    }

    /// Returns whether data of the table's items may be on disk.
    #[must_use]
    pub fn has_disk_tier(&self) -> bool {
        self.disk_tier().is_some()
    }

    /// Returns the disk tier, if the engine has one.
    pub(crate) fn disk_tier(&self) -> Option<&Arc<DiskTier>> {
        self.front().shared.disk_tier.get()
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.front().name()
    }

    /// Returns the table's current rules.
    #[must_use]
    pub fn config(&self) -> Arc<TableConfig> {
        match &self.cores {
            Cores::One(core) => core.config(),
            Cores::Many(shards) => Arc::clone(shards.config()),
        }
    }

    /// Inserts `items` in order, and adds to `confirmed` the keys of those that the table holds when the call returns.
    /// The other items wait in the queue; their outcomes are reported to `confirmations`, even after the caller stops
    /// listening.
    ///
    /// # Errors
    /// The error of the first item that the table refuses, because of an unusable priority, a closed table or a full
    /// queue. Earlier items are inserted or waiting; later items are dropped.
    pub fn insert(
        &self,
        items: impl IntoIterator<Item = NewItem>,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
        confirmed: &mut Vec<u64>,
    ) -> Result<Accepted, EngineError> {
        match &self.cores {
            Cores::One(core) => core.insert(items, who, confirmations, confirmed),
            Cores::Many(shards) => shards.insert(items, who, confirmations, confirmed),
        }
    }

    /// Applies `mutations` in order and ignores unknown keys.
    ///
    /// # Errors
    /// The error of the first mutation that the table refuses. The mutations before it are applied; the refused
    /// mutation and those after it are not. A closed table refuses all mutations.
    pub fn mutate(&self, mutations: impl IntoIterator<Item = Mutation>) -> Result<(), EngineError> {
        match &self.cores {
            Cores::One(core) => core.mutate(mutations),
            Cores::Many(shards) => shards.mutate(mutations),
        }
    }

    /// Removes all items and sets all counters to zero. Waiting operations keep waiting, and may be served as a result.
    ///
    /// # Errors
    /// The table is closed.
    pub fn reset(&self) -> Result<(), EngineError> {
        match &self.cores {
            Cores::One(core) => core.reset(),
            Cores::Many(shards) => shards.reset(),
        }
    }

    /// Closes the table: waiting operations fail immediately, as do all later ones. The items stay readable.
    pub fn close(&self) {
        match &self.cores {
            Cores::One(core) => core.close(),
            Cores::Many(shards) => shards.close(),
        }
    }

    /// Proposes `structure` as the structure of this table's items; its leaves, in flattening order, are the columns.
    /// The table keeps the first proposal for its lifetime, even after [`reset`](Self::reset). A later proposal that
    /// differs from it but has the same number of columns invalidates the structure, because items would be returned
    /// under wrong names. A table with a signature keeps the signature's structure. Returns whether `structure` is the
    /// valid one.
    ///
    /// ```
    /// use relive_engine::Engine;
    /// use relive_table::TableConfig;
    /// use relive_tensor::Nest;
    ///
    /// let engine = Engine::builder().table(TableConfig::new("replay")).build()?;
    /// let table = engine.table("replay")?;
    /// let transition = Nest::dict([("observation", ()), ("action", ())]);
    /// assert!(table.name_columns(transition.clone())?);
    /// assert_eq!(table.columns().as_deref(), Some(&transition));
    /// assert!(!table.name_columns(Nest::dict([("state", ()), ("action", ())]))?);
    /// assert_eq!(table.columns(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the structure has no columns, or exceeds one of the [limits](crate::limits).
    pub fn name_columns(&self, structure: Nest<()>) -> Result<bool, EngineError> {
        self.front().shared.columns.propose(self.name(), structure)
    }

    /// Returns the structure of this table's items, for a writer that adopts it: the structure of the signature, or
    /// else the first one proposed. If there was no earlier proposal, `structure` becomes the first one. If two
    /// proposals are concurrent, only one of them becomes the first.
    ///
    /// # Errors
    /// The errors of [`name_columns`](Self::name_columns).
    pub fn agree_on_columns(&self, structure: Nest<()>) -> Result<Arc<ItemStructure>, EngineError> {
        self.front().shared.columns.agree(self.name(), structure)
    }

    /// Returns the structure of this table's items, and whether a writer has written items with a different structure.
    #[must_use]
    pub fn structure(&self) -> Option<Arc<ItemStructure>> {
        self.front().shared.columns.structure()
    }

    /// The structure of this table's items: the structure of its signature, or the first one proposed, unless a
    /// different one was proposed later.
    #[must_use]
    pub fn columns(&self) -> Option<Arc<Nest<()>>> {
        self.front().shared.columns.names()
    }

    /// Configuration, sizes and counters.
    #[must_use]
    pub fn info(&self) -> TableInfo {
        match &self.cores {
            Cores::One(core) => core.info(),
            Cores::Many(shards) => shards.info(),
        }
    }

    /// Returns whether the rate limiter allows `count` inserts now.
    ///
    /// # Errors
    /// The count is below 1.
    pub fn can_insert(&self, count: i64) -> Result<bool, CountError> {
        match &self.cores {
            Cores::One(core) => core.can_insert(count),
            Cores::Many(shards) => shards.front().can_insert(count),
        }
    }

    /// Returns whether the rate limiter allows `count` samples now.
    ///
    /// # Errors
    /// The count is below 1.
    pub fn can_sample(&self, count: i64) -> Result<bool, CountError> {
        match &self.cores {
            Cores::One(core) => core.can_sample(count),
            Cores::Many(shards) => shards.can_sample(count),
        }
    }

    /// Returns the condition that blocks an insert now, or `None` if the rate limiter allows one.
    #[must_use]
    pub fn insert_shortfall(&self) -> Option<Shortfall> {
        match &self.cores {
            Cores::One(core) => core.insert_shortfall(),
            Cores::Many(shards) => shards.front().insert_shortfall(),
        }
    }

    /// Returns the condition that blocks a sample now, or `None` if the rate limiter allows one.
    #[must_use]
    pub fn sample_shortfall(&self) -> Option<Shortfall> {
        match &self.cores {
            Cores::One(core) => core.sample_shortfall(),
            Cores::Many(shards) => shards.sample_shortfall(),
        }
    }

    /// Returns the number of bytes in the table's chunks that are in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        match &self.cores {
            Cores::One(core) => core.resident_bytes(),
            Cores::Many(shards) => shards.bytes().resident_bytes(),
        }
    }

    /// Returns the table's full status.
    #[must_use]
    pub fn status(&self) -> TableStatus {
        match &self.cores {
            Cores::One(core) => core.status(),
            Cores::Many(shards) => shards.status(),
        }
    }

    /// Returns up to `limit` items in insertion order, starting at `from`, which is 0 or the position that the previous
    /// page returned.
    ///
    /// For each page, the whole table is scanned in parts, and the lock is released between them, so items that are
    /// inserted or removed in the meantime may or may not be listed. A few large pages cost less than many small ones.
    #[must_use]
    pub fn items(&self, from: u64, limit: usize) -> ItemPage {
        match &self.cores {
            Cores::One(core) => core.items(from, limit),
            Cores::Many(shards) => shards.items(from, limit),
        }
    }

    /// Returns the items with the given keys, or `None` for each key without an item. The items are returned as samples
    /// with a probability of 0.
    ///
    /// # Errors
    /// An item's data is on disk and cannot be read.
    pub async fn get_items(&self, keys: &[u64]) -> Result<Vec<Option<Sampled>>, EngineError> {
        let mut found = match &self.cores {
            Cores::One(core) => core.look_up(keys),
            Cores::Many(shards) => shards.look_up(keys),
        };
        if let Some(tier) = self.disk_tier() {
            let near = match tier.fetch(self.name(), found.iter().flatten().cloned().collect()) {
                Ok(near) => near,
                Err(fetch) => fetch.await?,
            };
            found.iter_mut().flatten().zip(near).for_each(|(found, near)| *found = near);
        }
        Ok(found)
    }
}

/// Extensions need access to the whole table, and a shard is only a part of it.
fn check_extensions(config: &TableConfig, extensions: &[Box<dyn Extension>]) -> Result<(), ConfigError> {
    match extensions.len() {
        0 => Ok(()),
        several => {
            let reason = format!("it has {several} extensions, which need all items in one place; omit them");
            Err(config.not_shardable(reason))
        }
    }
}

impl std::fmt::Debug for TableHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableHandle").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand_core::SeedableRng;
    use relive_tensor::Ledger;
    use relive_testkit::data;

    use super::*;

    /// Returns the number of referenced bytes that the table reports when one thread's delete is counted before another
    /// thread's insert.
    fn referenced_bytes_between(table: &TableHandle, keys: std::ops::Range<u64>) -> u64 {
        let who: Arc<str> = "test".into();
        let inserted: Vec<_> = keys
            .clone()
            .map(|key| {
                let core = table.core_of(key);
                (core, core.insert_detached(data::item(key, 1.0), &who, Instant::now()))
            })
            .collect();
        table.mutate(keys.map(|key| Mutation::Delete { key })).expect("the table is open");
        let referenced_bytes = table.status().referenced_bytes;
        inserted.into_iter().for_each(|(core, after)| core.settle(after));
        referenced_bytes
    }

    #[test]
    fn a_delete_counted_before_its_insert_does_not_underflow() {
        let memory = Arc::new(Memory::new(Arc::new(Ledger::default()), None, false, Duration::ZERO));
        for shards in [1, 3] {
            let config = TableConfig::new("t").shards(shards);
            let rng = Xoshiro256PlusPlus::seed_from_u64(7);
            let table = TableHandle::empty(config, Vec::new(), rng, &memory).expect("it is in range");
            assert_eq!(
                (referenced_bytes_between(&table, 0..9), table.status().referenced_bytes),
                (0, 0),
                "{shards}"
            );
        }
    }
}
