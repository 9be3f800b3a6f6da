//! Counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of classes of the age histogram: class `i` counts ages from `2^(i-1)` to `2^i - 1`, and class 0 counts
/// age 0.
pub const AGE_CLASSES: usize = 65;

/// Returns the class of an age, which is the number of later trajectories.
pub(crate) fn age_class(age: u64) -> usize {
    (64 - age.leading_zeros()) as usize
}

/// The reason why a trajectory was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Eviction {
    /// Another trajectory needed the row.
    NoFree,
    /// The number of selectable trajectories exceeded the store's limit.
    MaxSelectable,
    /// The trajectory was sampled the maximum number of times.
    Exhausted,
    /// The caller removed the trajectory.
    Removed,
}

/// Counters that all threads of a process update.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) inserted_rows: AtomicU64,
    pub(crate) inserted_bytes: AtomicU64,
    pub(crate) aborted_rows: AtomicU64,
    pub(crate) collects: AtomicU64,
    pub(crate) collected_rows: AtomicU64,
    pub(crate) collected_bytes: AtomicU64,
    pub(crate) collect_nanos: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) wait_nanos: AtomicU64,
    pub(crate) stale_updates: AtomicU64,
    pub(crate) dead_readers: AtomicU64,
    pub(crate) dead_writers: AtomicU64,
    evictions: [AtomicU64; 4],
    ages: [AtomicU64; AGE_CLASSES],
}

impl Default for Metrics {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            inserted_rows: zero(),
            inserted_bytes: zero(),
            aborted_rows: zero(),
            collects: zero(),
            collected_rows: zero(),
            collected_bytes: zero(),
            collect_nanos: zero(),
            waits: zero(),
            wait_nanos: zero(),
            stale_updates: zero(),
            dead_readers: zero(),
            dead_writers: zero(),
            evictions: [(); 4].map(|()| zero()),
            ages: [(); AGE_CLASSES].map(|()| zero()),
        }
    }
}

/// One process's counters for a store, since the process created the store or attached to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// The number of trajectories that became selectable.
    pub inserted_rows: u64,
    /// The number of bytes of the inserted trajectories' steps.
    pub inserted_bytes: u64,
    /// The number of trajectories that were started and abandoned.
    pub aborted_rows: u64,
    /// Collected batches. A batch that a device collects counts when it is complete.
    pub collects: u64,
    /// The number of rows of these batches.
    pub collected_rows: u64,
    /// The number of bytes that were read from trajectories for these batches, before casts and without padding.
    pub collected_bytes: u64,
    /// Time spent collecting; by a device, from the first to the last of its work on a batch. If batches are collected
    /// in several streams, it can be shorter.
    pub collect_time: Duration,
    /// The number of waits for a free row, a turn, or a batch's memory.
    pub waits: u64,
    /// Time spent waiting.
    pub wait_time: Duration,
    /// The number of weight updates for trajectories that no longer existed.
    pub stale_updates: u64,
    /// The number of readers that ended without leaving; their pins were released.
    pub dead_readers: u64,
    /// The number of writers that ended without leaving; their rows were reclaimed.
    pub dead_writers: u64,
    /// Evicted trajectories, by reason.
    pub evictions: [(Eviction, u64); 4],
    /// The ages of trajectories when they were pinned. An age is the number of trajectories that have become selectable
    /// since. Class `i` counts ages from `2^(i-1)` to `2^i - 1`, and class 0 counts age 0.
    pub ages: Vec<u64>,
}

impl Metrics {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts an eviction.
    pub(crate) fn evicted(&self, reason: Eviction) {
        Self::add(&self.evictions[reason as usize], 1);
    }

    /// Adds numbers of sampled trajectories, by [class](age_class) of their ages.
    pub(crate) fn aged(&self, counts: &[u64; AGE_CLASSES]) {
        for (counter, count) in self.ages.iter().zip(counts).filter(|(_, count)| **count > 0) {
            Self::add(counter, *count);
        }
    }

    /// Counts a wait.
    pub(crate) fn waited(&self, time: Duration) {
        Self::add(&self.waits, 1);
        Self::add(&self.wait_nanos, nanos(time));
    }

    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let reasons = [Eviction::NoFree, Eviction::MaxSelectable, Eviction::Exhausted, Eviction::Removed];
        MetricsSnapshot {
            inserted_rows: get(&self.inserted_rows),
            inserted_bytes: get(&self.inserted_bytes),
            aborted_rows: get(&self.aborted_rows),
            collects: get(&self.collects),
            collected_rows: get(&self.collected_rows),
            collected_bytes: get(&self.collected_bytes),
            collect_time: Duration::from_nanos(get(&self.collect_nanos)),
            waits: get(&self.waits),
            wait_time: Duration::from_nanos(get(&self.wait_nanos)),
            stale_updates: get(&self.stale_updates),
            dead_readers: get(&self.dead_readers),
            dead_writers: get(&self.dead_writers),
            evictions: reasons.map(|reason| (reason, get(&self.evictions[reason as usize]))),
            ages: self.ages.iter().map(get).collect(),
        }
    }
}

/// Converts a duration to nanoseconds, at most 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_counted_by_powers_of_two() {
        let metrics = Metrics::default();
        let mut counts = [0; AGE_CLASSES];
        [0, 1, 2, 3, 4, u64::MAX].into_iter().for_each(|age| counts[age_class(age)] += 1);
        metrics.aged(&counts);
        let ages = metrics.snapshot().ages;
        assert_eq!((&ages[..5], ages[64]), (&[1, 1, 2, 1, 0][..], 1));
    }
}
