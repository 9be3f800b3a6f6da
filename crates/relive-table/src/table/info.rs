//! Reads the state of a table.

use std::ops::Range;
use std::sync::Arc;

use relive_tensor::ChunkTotals;

use crate::config::TableConfig;
use crate::item::ItemView;
use crate::limiter::{CountError, RateLimiter, Shortfall};
use crate::selector::Select;
use crate::storage::Record;
use crate::table::Table;

/// A table's rules and counters at one point in time. The counters start when the table is created or reset.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The rules.
    pub config: Arc<TableConfig>,
    /// The number of items.
    pub current_size: u64,
    /// The number of episodes that have data in the table.
    pub num_episodes: u64,
    /// The number of times that the last data of an episode has left the table.
    pub num_deleted_episodes: u64,
    /// The number of items that have been sampled at least once.
    pub num_unique_samples: u64,
    /// The number of priority changes that extensions requested and a selector refused.
    pub num_refused_requests: u64,
    /// The number of completed inserts of new items.
    pub inserts: i64,
    /// Completed samples.
    pub samples: i64,
    /// The number of items that left the table, for any reason.
    pub deletes: i64,
}

impl Table {
    /// The rules.
    pub fn config(&self) -> &Arc<TableConfig> {
        &self.state.config
    }

    /// Returns the number of items.
    pub fn len(&self) -> u64 {
        self.state.contents.items.len() as u64
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the table has an item with the given key.
    pub fn contains(&self, key: u64) -> bool {
        self.state.contents.items.find(key).is_some()
    }

    /// Returns the item with the given key.
    pub fn get(&self, key: u64) -> Option<ItemView<'_>> {
        self.state.get(key)
    }

    /// Returns the number of bytes in the items' chunks, including those on disk and those shared with other tables of
    /// the same ledger. Each chunk is counted once. For a divided table, use [`Common::bytes`](crate::Common::bytes).
    pub fn bytes(&self) -> ChunkTotals {
        self.state.contents.account.snapshot()
    }

    /// Returns the sum of the sampler's weights: for a prioritized sampler, the sum of the priorities raised to its
    /// exponent; for others, the number of items.
    pub fn total_weight(&self) -> f64 {
        self.state.contents.sampler.total_weight()
    }

    /// Iterates over all items in insertion order.
    ///
    /// This first sorts references to all items. A caller that holds a lock should collect
    /// [`iter_unordered`](Self::iter_unordered) instead, and sort by [`sequence`](crate::ItemData::sequence) outside
    /// the lock.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ItemView<'_>> {
        let mut views: Vec<ItemView<'_>> = self.iter_unordered().collect();
        views.sort_unstable_by_key(|view| view.data.sequence);
        views.into_iter()
    }

    /// Iterates over all items in no particular order.
    pub fn iter_unordered(&self) -> impl Iterator<Item = ItemView<'_>> {
        self.state.contents.items.records().map(Record::view)
    }

    /// Returns the number of slots that are or have been in use.
    pub fn num_slots(&self) -> usize {
        self.state.contents.items.num_slots()
    }

    /// Iterates over the items in some of the [`num_slots`](Self::num_slots) slots. An item keeps its slot; new items
    /// reuse the slots of removed items.
    pub fn items_in_slots(&self, slots: Range<usize>) -> impl Iterator<Item = ItemView<'_>> {
        self.state.contents.items.records_in(slots).map(Record::view)
    }

    /// Returns the rate limiter, for its counters and its cursor.
    pub fn rate_limiter(&self) -> &RateLimiter {
        &self.state.limiter
    }

    /// Returns whether the rate limiter allows `count` inserts now.
    ///
    /// # Errors
    /// The count is below 1.
    pub fn can_insert(&self, count: i64) -> Result<bool, CountError> {
        self.state.limiter.can_insert(count)
    }

    /// Returns whether the rate limiter allows `count` samples now.
    ///
    /// # Errors
    /// The count is below 1.
    pub fn can_sample(&self, count: i64) -> Result<bool, CountError> {
        self.state.limiter.can_sample(count)
    }

    /// Returns the condition that one insert waits for, or `None` if it may proceed.
    pub fn insert_shortfall(&self) -> Option<Shortfall> {
        self.state.limiter.insert_shortfall()
    }

    /// Returns the condition that one sample waits for, or `None` if it may proceed.
    pub fn sample_shortfall(&self) -> Option<Shortfall> {
        self.state.limiter.sample_shortfall()
    }

    /// Returns the rules and the counters.
    pub fn info(&self) -> TableInfo {
        let state = &self.state;
        TableInfo {
            config: Arc::clone(&state.config),
            current_size: self.len(),
            num_episodes: state.contents.episodes.len() as u64,
            num_deleted_episodes: state.counters.deleted_episodes,
            num_unique_samples: state.counters.unique_samples,
            num_refused_requests: state.counters.refused_requests,
            inserts: state.limiter.inserts(),
            samples: state.limiter.samples(),
            deletes: state.limiter.deletes(),
        }
    }
}
