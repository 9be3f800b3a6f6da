//! A table that many tasks share.

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

/// A table that many tasks share; cheap to clone.
#[derive(Clone)]
pub struct TableHandle {
    cores: Cores,
}

/// What is behind the name.
#[derive(Clone)]
enum Cores {
    One(TableCore),
    Many(Arc<ShardedTable>),
}

impl TableHandle {
    /// A table without items.
    ///
    /// # Errors
    /// Rules out of range; extensions of a table in shards.
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

    /// A table with the state of another. Tells also how many items have left, as the rules allow fewer.
    ///
    /// # Errors
    /// As [`empty`](Self::empty); a state that no table can be in.
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

    /// Where the item of this key is, if there is one.
    pub(crate) fn core_of(&self, key: u64) -> &TableCore {
        match &self.cores {
            Cores::One(core) => core,
            Cores::Many(shards) => shards.core_of(key),
        }
    }

    /// Serves those who wait for what was changed in a core.
    pub(crate) fn serve_waiters(&self) {
        match &self.cores {
            // It has served its own.
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

    /// Ends a request whose time is up: with its samples if it was served at the last moment.
    pub(crate) fn give_up_sample(&self, id: u64, slot: &Slot<SampleResult>, since: Instant) -> SampleResult {
        match &self.cores {
            Cores::One(core) => core.give_up_sample(id, slot, since),
            Cores::Many(shards) => shards.give_up_sample(id, slot, since),
        }
    }

    /// Takes back a request; gives the samples that had been taken for it already.
    pub(crate) fn withdraw_sample(&self, id: u64, slot: &Slot<SampleResult>) -> Vec<Sampled> {
        match &self.cores {
            Cores::One(core) => core.withdraw_sample(id, slot),
            Cores::Many(shards) => shards.withdraw_sample(id, slot),
        }
    }

    /// All that is behind the name, always in the same order.
    pub(crate) fn cores(&self) -> &[TableCore] {
        match &self.cores {
            Cores::One(core) => std::slice::from_ref(core),
            Cores::Many(shards) => shards.cores(),
        }
    }

    /// What the next of `parts` have of this table, which are the snapshots of its cores; items in no order.
    pub(crate) fn merged(&self, parts: &mut impl Iterator<Item = TableSnapshot>) -> Option<TableSnapshot> {
        match &self.cores {
            Cores::One(_) => parts.next(),
            Cores::Many(shards) => shards.merged(parts),
        }
    }

    /// The only core; `None` of a table in shards.
    pub(crate) fn only(&self) -> Option<&TableCore> {
        match &self.cores {
            Cores::One(core) => Some(core),
            Cores::Many(_) => None,
        }
    }

    /// Ends the table for good.
    pub(crate) fn end(&self, why: &EngineError) {
        match &self.cores {
            Cores::One(core) => core.end(why),
            Cores::Many(shards) => shards.end(why),
        }
    }

    /// The core that keeps what the table has once.
    pub(crate) fn front(&self) -> &TableCore {
        match &self.cores {
            Cores::One(core) => core,
            Cores::Many(shards) => shards.front(),
        }
    }

    /// The disk tier, if there is one.
    pub(crate) fn disk_tier(&self) -> Option<&Arc<DiskTier>> {
        self.front().shared.disk_tier.get()
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.front().name()
    }

    /// The rules that the table has now.
    #[must_use]
    pub fn config(&self) -> Arc<TableConfig> {
        match &self.cores {
            Cores::One(core) => core.config(),
            Cores::Many(shards) => Arc::clone(shards.config()),
        }
    }

    /// Inserts `items` in order.
    ///
    /// The keys of items that the table now holds are added to `confirmed`; the others wait their turn and report to
    /// `confirmations`, whether or not the caller still listens.
    ///
    /// # Errors
    /// The first item that the table refuses ends the call: an unusable priority, a closed table, a full queue. Items
    /// before it are inserted or waiting, items after it are dropped.
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

    /// Applies `mutations` in order; unknown keys are passed over.
    ///
    /// # Errors
    /// The first priority that the table refuses ends the call, and is not applied; the ones before it are. A closed
    /// table refuses everything.
    pub fn mutate(&self, mutations: impl IntoIterator<Item = Mutation>) -> Result<(), EngineError> {
        match &self.cores {
            Cores::One(core) => core.mutate(mutations),
            Cores::Many(shards) => shards.mutate(mutations),
        }
    }

    /// Removes every item and sets every counter to zero. Waiting operations stay and may go on.
    ///
    /// # Errors
    /// The table is closed.
    pub fn reset(&self) -> Result<(), EngineError> {
        match &self.cores {
            Cores::One(core) => core.reset(),
            Cores::Many(shards) => shards.reset(),
        }
    }

    /// Ends the table: whatever waits fails now, whatever comes later fails at once. The items stay readable.
    pub fn close(&self) {
        match &self.cores {
            Cores::One(core) => core.close(),
            Cores::Many(shards) => shards.close(),
        }
    }

    /// Proposes `structure` as what the items of this table look like, whose columns are its leaves in the flattening
    /// order. The first proposal is kept, as long as the table lives; [`reset`](Self::reset) does not forget it. Once
    /// another one of as many columns is proposed, none counts any more: items would come back under wrong names. A
    /// table with a signature keeps that one. Tells whether `structure` is the one that counts.
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
    /// `InvalidArgument` for a structure without columns, or beyond one of the [limits](crate::limits).
    pub fn name_columns(&self, structure: Nest<()>) -> Result<bool, EngineError> {
        self.front().shared.columns.propose(self.name(), structure)
    }

    /// What all items of this table look like, for a writer who keeps to the answer: the structure of its signature, or
    /// else the one that was proposed first, which `structure` is if none was. Of two who propose at the same time one
    /// is the first.
    ///
    /// # Errors
    /// As [`name_columns`](Self::name_columns).
    pub fn agree_on_columns(&self, structure: Nest<()>) -> Result<Arc<ItemStructure>, EngineError> {
        self.front().shared.columns.agree(self.name(), structure)
    }

    /// What the items of this table look like, and whether somebody has written others.
    #[must_use]
    pub fn structure(&self) -> Option<Arc<ItemStructure>> {
        self.front().shared.columns.structure()
    }

    /// What the items of this table look like: the structure of its signature, or else the one that was proposed first,
    /// unless another one was proposed since.
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

    /// Whether the rate limiter allows `count` inserts now.
    ///
    /// # Errors
    /// A count below 1.
    pub fn can_insert(&self, count: i64) -> Result<bool, CountError> {
        match &self.cores {
            Cores::One(core) => core.can_insert(count),
            Cores::Many(shards) => shards.front().can_insert(count),
        }
    }

    /// Whether the rate limiter allows `count` samples now.
    ///
    /// # Errors
    /// A count below 1.
    pub fn can_sample(&self, count: i64) -> Result<bool, CountError> {
        match &self.cores {
            Cores::One(core) => core.can_sample(count),
            Cores::Many(shards) => shards.can_sample(count),
        }
    }

    /// What holds an insert back now; `None` if the rate limiter allows one.
    #[must_use]
    pub fn insert_shortfall(&self) -> Option<Shortfall> {
        match &self.cores {
            Cores::One(core) => core.insert_shortfall(),
            Cores::Many(shards) => shards.front().insert_shortfall(),
        }
    }

    /// What holds a sample back now; `None` if the rate limiter allows one.
    #[must_use]
    pub fn sample_shortfall(&self) -> Option<Shortfall> {
        match &self.cores {
            Cores::One(core) => core.sample_shortfall(),
            Cores::Many(shards) => shards.sample_shortfall(),
        }
    }

    /// Bytes of the table's chunks that are in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        match &self.cores {
            Cores::One(core) => core.resident_bytes(),
            Cores::Many(shards) => shards.bytes().resident_bytes(),
        }
    }

    /// Everything there is to say about the table.
    #[must_use]
    pub fn status(&self) -> TableStatus {
        match &self.cores {
            Cores::One(core) => core.status(),
            Cores::Many(shards) => shards.status(),
        }
    }

    /// Up to `limit` items in the order of their insertion, beginning at `from`: 0, or what the page before says.
    ///
    /// A page looks through the whole table, in parts, so that others come in between: items that come or leave
    /// meanwhile may or may not be on it. Large pages are better than many.
    #[must_use]
    pub fn items(&self, from: u64, limit: usize) -> ItemPage {
        match &self.cores {
            Cores::One(core) => core.items(from, limit),
            Cores::Many(shards) => shards.items(from, limit),
        }
    }

    /// The items of these keys, each `None` if there is none; each as if it had just been sampled, with a probability
    /// of 0.
    ///
    /// # Errors
    /// Data of an item lies on disk and cannot be read back.
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

/// Extensions look at the table that they extend, of which a shard is only a part.
fn check_extensions(config: &TableConfig, extensions: &[Box<dyn Extension>]) -> Result<(), ConfigError> {
    match extensions.len() {
        0 => Ok(()),
        several => {
            let reason = format!("it has {several} extensions, which look at all items; leave them out");
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

    /// What the table tells while an insert of one thread is not counted yet and a delete of another is.
    fn told_between(table: &TableHandle, keys: std::ops::Range<u64>) -> u64 {
        let who: Arc<str> = "test".into();
        let inserted: Vec<_> = keys
            .clone()
            .map(|key| {
                let core = table.core_of(key);
                (core, core.insert_detached(data::item(key, 1.0), &who, Instant::now()))
            })
            .collect();
        table.mutate(keys.map(|key| Mutation::Delete { key })).expect("the table is open");
        let told = table.status().referenced_bytes;
        inserted.into_iter().for_each(|(core, after)| core.settle(after));
        told
    }

    #[test]
    fn a_delete_that_is_counted_before_its_insert_makes_no_number_of_all_bits() {
        let memory = Arc::new(Memory::new(Arc::new(Ledger::default()), None, false, Duration::ZERO));
        for shards in [1, 3] {
            let config = TableConfig::new("t").shards(shards);
            let rng = Xoshiro256PlusPlus::seed_from_u64(7);
            let table = TableHandle::empty(config, Vec::new(), rng, &memory).expect("it is in range");
            assert_eq!((told_between(&table, 0..9), table.status().referenced_bytes), (0, 0), "{shards}");
        }
    }
}
