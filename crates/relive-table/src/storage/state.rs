//! A table's state without its extensions.

use std::sync::Arc;

use relive_tensor::Ledger;

use super::capture::Capture;
use super::common::Sequence;
use super::contents::Contents;
use super::record::Record;
use crate::config::TableConfig;
use crate::item::ItemView;
use crate::limiter::RateLimiter;

/// A table without its extensions, so that they can read it while they run.
pub(crate) struct State {
    pub(crate) config: Arc<TableConfig>,
    pub(crate) limiter: RateLimiter,
    pub(crate) contents: Contents,
    pub(crate) counters: Counters,
    /// The sequence numbers of items. A reset does not change them.
    pub(crate) sequence: Sequence,
    /// Whether items still have to be evicted after a change to the rules.
    pub(crate) is_shrinking: bool,
    /// Whether `max_times_sampled` was changed while the table was in use.
    pub(crate) is_limit_changed: bool,
    /// A running capture of the table's state at an earlier moment.
    pub(crate) capture: Option<Box<Capture>>,
    /// The ledger that counts the items' chunks.
    pub(crate) ledger: Arc<Ledger>,
}

/// Counters since the last reset, in addition to the rate limiter's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) deleted_episodes: u64,
    pub(crate) unique_samples: u64,
    pub(crate) refused_requests: u64,
}

impl State {
    pub(crate) fn get(&self, key: u64) -> Option<ItemView<'_>> {
        let slot = self.contents.items.find(key)?;
        self.contents.items.get(slot).map(Record::view)
    }

    pub(crate) fn config(&self) -> &Arc<TableConfig> {
        &self.config
    }
}
