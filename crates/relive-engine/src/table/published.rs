//! The state of a shard that is readable without its lock.

use relive_table::Table;

use crate::sync::{AtomicU64, Ordering};

/// The numbers of a shard that can be read without its lock. Each is from a recent state, but not necessarily from the
/// same one.
#[derive(Debug)]
pub(crate) struct Published {
    items: AtomicU64,
    weight: AtomicU64,
}

impl Published {
    pub(crate) fn of(table: &Table) -> Self {
        Self { items: AtomicU64::new(table.len()), weight: AtomicU64::new(table.total_weight().to_bits()) }
    }

    /// Publishes the table's state. Called under its lock, after each change.
    pub(crate) fn publish(&self, table: &Table) {
        put(&self.items, table.len());
        put(&self.weight, table.total_weight().to_bits());
    }

    pub(crate) fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    pub(crate) fn weight(&self) -> f64 {
        f64::from_bits(self.weight.load(Ordering::Relaxed))
    }
}

/// Does not store unchanged values, so that they stay in the caches of other threads. There is only one writer at a
/// time.
fn put(place: &AtomicU64, value: u64) {
    if place.load(Ordering::Relaxed) != value {
        place.store(value, Ordering::Relaxed);
    }
}
