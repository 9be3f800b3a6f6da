//! All that is in tables at one moment, as plain data: what outlives a server.

use std::sync::Arc;

use relive_tensor::Ledger;

use crate::{ItemData, TableConfig};

/// Tables at one moment. Items and chunks are shared with the tables, not copied.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The tables, in the order in which their engine keeps them.
    pub tables: Vec<TableSnapshot>,
    /// The account in which the chunks count.
    pub ledger: Arc<Ledger>,
}

/// A table at one moment.
#[derive(Clone, Debug)]
pub struct TableSnapshot {
    /// The rules.
    pub config: Arc<TableConfig>,
    /// The counters.
    pub counters: TableCounters,
    /// The items.
    pub items: Vec<StoredItem>,
}

/// What a table counts, beyond what follows from its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Completed inserts of new items.
    pub inserts: i64,
    /// Completed samples.
    pub samples: i64,
    /// Items that left the table; `inserts - deletes` is the number of items.
    pub deletes: i64,
    /// Number of times that an episode lost its last data.
    pub deleted_episodes: u64,
    /// Number of items that have been sampled at least once.
    pub unique_samples: u64,
}

/// An item as it was in its table.
#[derive(Clone, Debug)]
pub struct StoredItem {
    /// The part that never changes.
    pub data: Arc<ItemData>,
    /// Its priority.
    pub priority: f64,
    /// How often it had been sampled.
    pub times_sampled: i32,
}

impl TableSnapshot {
    /// Puts the items into the order of their insertion.
    pub fn sort(&mut self) {
        self.items.sort_unstable_by_key(|item| item.data.sequence);
    }
}

impl Snapshot {
    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&TableSnapshot> {
        self.tables.iter().find(|table| table.config.name == name)
    }
}
