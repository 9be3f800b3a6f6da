//! The content of tables at one point in time, as plain data for checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_tensor::Ledger;

use crate::config::TableConfig;
use crate::item::ItemData;
use crate::structure::ItemStructure;

/// Tables at one point in time. Items and chunks are shared with the tables, not copied.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The tables, in the order of their engine.
    pub tables: Vec<TableSnapshot>,
    /// The ledger that counts the chunks.
    pub ledger: Arc<Ledger>,
    /// Whether the rules are incomplete, because the tables come from a file of dm-reverb, which cannot express the rules
    /// that only Relive has.
    pub lacks_own_rules: bool,
}

/// A table at one point in time.
#[derive(Clone, Debug)]
pub struct TableSnapshot {
    /// The rules.
    pub config: Arc<TableConfig>,
    /// The counters.
    pub counters: TableCounters,
    /// The items.
    pub items: Vec<StoredItem>,
    /// The structure of the items, if writers have named the columns and there is no signature.
    pub structure: Option<Arc<ItemStructure>>,
}

/// The counters of a table that cannot be derived from its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// The number of completed inserts of new items.
    pub inserts: i64,
    /// The number of completed samples. If the limiter's ratio was changed while the table was in use, this is the
    /// number that gives the same cursor with the current ratio; it may be negative.
    pub samples: i64,
    /// The number of items that left the table; `inserts - deletes` is the number of items.
    pub deletes: i64,
    /// The number of times that the last data of an episode has left the table.
    pub deleted_episodes: u64,
    /// The number of items that have been sampled at least once.
    pub unique_samples: u64,
}

/// An item as it was in its table at that moment.
#[derive(Clone, Debug)]
pub struct StoredItem {
    /// The immutable part.
    pub data: Arc<ItemData>,
    /// Its priority.
    pub priority: f64,
    /// The number of times that the item has been sampled.
    pub times_sampled: i32,
}

/// The progress of a checkpoint. The thread that writes it increments the counts; any thread may read them.
#[derive(Debug, Default)]
pub struct CheckpointProgress {
    items_total: AtomicU64,
    items_done: AtomicU64,
    bytes_total: AtomicU64,
    bytes_done: AtomicU64,
}

/// The numbers of a [`CheckpointProgress`], all read at about the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounts {
    /// The number of items in the complete checkpoint; 0 until it is known.
    pub items_total: u64,
    /// Items written.
    pub items_done: u64,
    /// The total size in bytes of the chunks that have to be written; 0 until it is known.
    pub bytes_total: u64,
    /// The total size in bytes of the chunks that have been written.
    pub bytes_done: u64,
}

/// A checkpoint that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCheckpoint {
    /// The path or URL.
    pub location: String,
    /// The number of bytes written for this checkpoint.
    pub written_bytes: u64,
    /// The number of bytes in this checkpoint and in all files that it refers to, most of which may have existed
    /// before.
    pub total_bytes: u64,
}

impl CheckpointProgress {
    /// Sets how many items and bytes will be written. The counts begin again.
    pub fn expect(&self, items: u64, bytes: u64) {
        self.items_done.store(0, Ordering::Relaxed);
        self.bytes_done.store(0, Ordering::Relaxed);
        self.items_total.store(items, Ordering::Relaxed);
        self.bytes_total.store(bytes, Ordering::Relaxed);
    }

    /// Adds to the counts of written items and bytes.
    pub fn advance(&self, items: u64, bytes: u64) {
        self.items_done.fetch_add(items, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the current counts.
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
    /// Sorts the items by insertion order.
    pub fn sort(&mut self) {
        // The sequence number is behind a reference, so it is fetched once per item rather than once per comparison.
        self.items.sort_by_cached_key(|item| item.data.sequence);
    }
}

impl Snapshot {
    /// Returns the table with the given name.
    pub fn table(&self, name: &str) -> Option<&TableSnapshot> {
        self.tables.iter().find(|table| table.config.name == name)
    }
}
