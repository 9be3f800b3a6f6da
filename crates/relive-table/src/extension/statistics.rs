//! Statistics that a table's counters do not show.

use crate::extension::{Context, Extension, Metric};
use crate::item::ItemView;

/// Counts all operations and summarizes how items were used. A reset of the table also resets the statistics.
///
/// Metrics: `inserts`, `updates`, `samples`, `deletes` (counts of operations); `inserted_priority_mean`,
/// `sampled_priority_mean` (both NaN until there is a value); `deleted_unsampled` (items that left the table without
/// having been sampled); `times_sampled_at_deletion_mean`.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    inserted: RunningMean,
    updated: RunningMean,
    sampled: RunningMean,
    /// Statistics about the number of times that deleted items had been sampled.
    deleted: RunningMean,
    deleted_unsampled: u64,
}

/// A count, and the mean of the finite numbers, updated without losing small terms in large sums (Welford 1962). One
/// infinite priority would make the mean useless for as long as the table exists.
#[derive(Clone, Copy, Debug, Default)]
struct RunningMean {
    count: u64,
    finite: u64,
    mean: f64,
}

impl RunningMean {
    fn add(&mut self, value: f64) {
        self.count += 1;
        if value.is_finite() {
            self.finite += 1;
            self.mean += (value - self.mean) / self.finite as f64;
        }
    }

    fn count(&self) -> f64 {
        self.count as f64
    }

    fn mean(&self) -> f64 {
        if self.finite == 0 { f64::NAN } else { self.mean }
    }
}

impl Extension for Statistics {
    fn on_insert(&mut self, _context: &mut Context<'_>, item: ItemView<'_>) {
        self.inserted.add(item.priority);
    }

    fn on_update(&mut self, _context: &mut Context<'_>, item: ItemView<'_>, _previous: f64) {
        self.updated.add(item.priority);
    }

    fn on_sample(&mut self, _context: &mut Context<'_>, item: ItemView<'_>) {
        self.sampled.add(item.priority);
    }

    fn on_delete(&mut self, _context: &mut Context<'_>, item: ItemView<'_>) {
        self.deleted.add(f64::from(item.times_sampled));
        self.deleted_unsampled += u64::from(item.times_sampled == 0);
    }

    fn on_reset(&mut self) {
        *self = Self::default();
    }

    fn metrics(&self) -> Vec<Metric> {
        let metric = |name, value| Metric { name, value };
        vec![
            metric("inserts", self.inserted.count()),
            metric("updates", self.updated.count()),
            metric("samples", self.sampled.count()),
            metric("deletes", self.deleted.count()),
            metric("inserted_priority_mean", self.inserted.mean()),
            metric("sampled_priority_mean", self.sampled.mean()),
            metric("deleted_unsampled", self.deleted_unsampled as f64),
            metric("times_sampled_at_deletion_mean", self.deleted.mean()),
        ]
    }
}
