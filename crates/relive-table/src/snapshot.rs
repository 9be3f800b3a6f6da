//! All that is in tables at one moment, as plain data: what outlives a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_tensor::Ledger;

use crate::config::TableConfig;
use crate::item::ItemData;
use crate::structure::ItemStructure;

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
    /// What the items look like, if writers have said it and no signature does.
    pub structure: Option<Arc<ItemStructure>>,
}

/// What a table counts, beyond what follows from its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Completed inserts of new items.
    pub inserts: i64,
    /// Completed samples. Once the limiter's ratio was changed in use, the number that gives its cursor with the
    /// present one.
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

/// How far a checkpoint is. Whoever writes it counts up; anybody may look.
#[derive(Debug, Default)]
pub struct CheckpointProgress {
    items_total: AtomicU64,
    items_done: AtomicU64,
    bytes_total: AtomicU64,
    bytes_done: AtomicU64,
}

/// The numbers of a [`CheckpointProgress`] at about one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounts {
    /// Items that the checkpoint will have; 0 until that is known.
    pub items_total: u64,
    /// Items written.
    pub items_done: u64,
    /// Bytes of chunks that are not stored yet; 0 until that is known.
    pub bytes_total: u64,
    /// Bytes of chunks written.
    pub bytes_done: u64,
}

/// A checkpoint that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCheckpoint {
    /// Path or URL.
    pub location: String,
    /// Bytes that were written for it.
    pub written_bytes: u64,
    /// Bytes of it and of all that it refers to, most of which may have been there before.
    pub total_bytes: u64,
}

impl CheckpointProgress {
    /// Says how much there is to write.
    pub fn expect(&self, items: u64, bytes: u64) {
        self.items_total.store(items, Ordering::Relaxed);
        self.bytes_total.store(bytes, Ordering::Relaxed);
    }

    /// Counts what has been written.
    pub fn advance(&self, items: u64, bytes: u64) {
        self.items_done.fetch_add(items, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The numbers now.
    pub fn counts(&self) -> CheckpointCounts {
        CheckpointCounts {
            items_total: self.items_total.load(Ordering::Relaxed),
            items_done: self.items_done.load(Ordering::Relaxed),
            bytes_total: self.bytes_total.load(Ordering::Relaxed),
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
        }
    }
}

impl TableSnapshot {
    /// Puts the items into the order of their insertion.
    pub fn sort(&mut self) {
        // The number lies behind a reference: it is fetched once for each item, not once for each comparison.
        self.items.sort_by_cached_key(|item| item.data.sequence);
    }
}

impl Snapshot {
    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&TableSnapshot> {
        self.tables.iter().find(|table| table.config.name == name)
    }
}
