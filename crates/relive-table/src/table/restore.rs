//! Takes snapshots of a table, and restores a table from a snapshot.

use std::sync::Arc;

use rand_core::Rng;
use relive_tensor::Ledger;
use thiserror::Error;

use crate::config::{ConfigError, TableConfig};
use crate::extension::Extension;
use crate::item::ItemData;
use crate::selector::{PriorityError, Slot};
use crate::snapshot::{StoredItem, TableCounters, TableSnapshot};
use crate::storage::{Common, Contents, Counters, Freed, Record, State};
use crate::table::Table;

/// The reason why a table cannot be restored.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RestoreError {
    /// The rules are out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The counters contradict the number of items.
    #[error(
        "table {table:?}: {inserts} inserts minus {deletes} deletes are {} items, but there are {items}",
        .inserts.saturating_sub(*.deletes)
    )]
    Counters {
        /// The name of the table.
        table: String,
        /// The inserts counted.
        inserts: i64,
        /// The deletes counted.
        deletes: i64,
        /// The number of given items.
        items: usize,
    },
    /// Two items have the same key.
    #[error("table {table:?}: two items have the key {key}")]
    DuplicateKey {
        /// The name of the table.
        table: String,
        /// Their key.
        key: u64,
    },
    /// An item is not in insertion order.
    #[error("table {table:?}: item {key} is not in the order of insertion")]
    Order {
        /// The name of the table.
        table: String,
        /// The item.
        key: u64,
    },
    /// A selector of the table refuses an item's priority.
    #[error("table {table:?}, item {key}: {source}")]
    Priority {
        /// The name of the table.
        table: String,
        /// The item.
        key: u64,
        /// The selector's reason.
        source: PriorityError,
    },
}

impl Table {
    /// Returns rules, counters and items. The items are in no particular order: call [`TableSnapshot::sort`] outside
    /// the lock.
    pub fn snapshot(&self) -> TableSnapshot {
        let State { config, contents, .. } = &self.state;
        let stored = |record: &Record| StoredItem {
            data: Arc::clone(record.data()),
            priority: record.priority,
            times_sampled: record.times_sampled,
        };
        let mut items = Vec::with_capacity(contents.items.len());
        items.extend(contents.items.records().map(stored));
        TableSnapshot { config: Arc::clone(config), counters: self.state.counters(), items, structure: None }
    }

    /// Creates a table with the rules `config`, and the items and counters of `snapshot`. The snapshot's own rules are
    /// ignored. `ledger` counts the chunks.
    ///
    /// The rate limiter is not consulted. Items that by themselves exceed `config.max_bytes` are removed. Then the
    /// remover evicts items until the table is within `config.max_bytes` and `config.max_size`.
    /// [`Extension::on_restore`] is called for the remaining items.
    ///
    /// # Errors
    /// The rules are out of range; items are not in insertion order, share a key or have a priority that a selector
    /// refuses; or counters contradict the number of items.
    pub fn restored<R: Rng + ?Sized>(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        ledger: &Arc<Ledger>,
        snapshot: TableSnapshot,
        rng: &mut R,
        freed: &mut Freed,
    ) -> Result<Self, RestoreError> {
        let table = Self::in_ledger(config, Vec::new(), Arc::clone(ledger))?;
        let mut table = table.with_content(snapshot, rng, freed)?;
        table.extensions = extensions;
        table.notify_restored();
        Ok(table)
    }

    /// Like [`restored`](Self::restored), but for a [shard](Self::shard).
    ///
    /// # Errors
    /// The errors of [`restored`](Self::restored).
    pub fn restored_shard<R: Rng + ?Sized>(
        config: TableConfig,
        common: &Common,
        shard: usize,
        snapshot: TableSnapshot,
        rng: &mut R,
        freed: &mut Freed,
    ) -> Result<Self, RestoreError> {
        Self::shard(config, common, shard)?.with_content(snapshot, rng, freed)
    }

    fn with_content<R: Rng + ?Sized>(
        mut self,
        snapshot: TableSnapshot,
        rng: &mut R,
        freed: &mut Freed,
    ) -> Result<Self, RestoreError> {
        self.state.adopt(snapshot)?;
        self.remove_oversized(freed);
        self.evict_excess(usize::MAX, rng, freed);
        Ok(self)
    }

    /// Removes items that by themselves exceed the bounds, so that other items are not evicted to make room for them.
    fn remove_oversized(&mut self, freed: &mut Freed) {
        let State { config, contents, .. } = &self.state;
        let Some(limit) = config.max_bytes.filter(|_| self.state.is_over()) else { return };
        let is_oversized = |record: &Record| record.data().trajectory.encoded_size_bytes() > limit;
        let slots = (0..contents.items.num_slots()).filter_map(|slot| Slot::try_from(slot).ok());
        let oversized: Vec<Slot> =
            slots.filter(|&slot| contents.items.get(slot).is_some_and(is_oversized)).collect();
        for slot in oversized {
            self.remove_slot(slot, freed);
        }
    }
}

impl State {
    fn adopt(&mut self, snapshot: TableSnapshot) -> Result<(), RestoreError> {
        let TableSnapshot { counters, items, .. } = snapshot;
        let TableCounters { inserts, samples, deletes, deleted_episodes, unique_samples } = counters;
        let table = || self.config.name.clone();
        let size = inserts.checked_sub(deletes).and_then(|size| usize::try_from(size).ok());
        if size != Some(items.len()) || deletes < 0 {
            return Err(RestoreError::Counters { table: table(), inserts, deletes, items: items.len() });
        }
        let mut next_sequence = 0;
        let limit = self.config.max_times_sampled;
        for item in items {
            let StoredItem { data, priority, times_sampled } = item;
            // The limit was lowered after the item had reached it: while the table was in use, or for this restart.
            self.is_limit_changed |= limit >= 1 && times_sampled >= limit;
            let key = data.key;
            if data.sequence < next_sequence {
                return Err(RestoreError::Order { table: table(), key });
            }
            if self.contents.items.find(key).is_some() {
                return Err(RestoreError::DuplicateKey { table: table(), key });
            }
            next_sequence = data.sequence.saturating_add(1);
            let admitted = self.contents.place(data, priority, times_sampled);
            admitted.map_err(|source| RestoreError::Priority { table: table(), key, source })?;
        }
        self.sequence.raise(next_sequence);
        self.limiter = self.limiter.with_counters(inserts, samples, deletes);
        self.counters = Counters { deleted_episodes, unique_samples, ..Counters::default() };
        Ok(())
    }
}

impl Contents {
    /// Adds an item with a new key.
    fn place(&mut self, data: Arc<ItemData>, priority: f64, times_sampled: i32) -> Result<(), PriorityError> {
        let admitted = self.admit(None, priority)?;
        self.hold(&data.trajectory);
        let slot = self.items.insert(data, priority, times_sampled);
        self.select(slot, admitted);
        Ok(())
    }
}
