//! A table's state: all of it but the extensions.

use std::sync::Arc;

use relive_tensor::Ledger;

use super::capture::Capture;
use super::common::Sequence;
use super::contents::Contents;
use super::record::Record;
use crate::config::TableConfig;
use crate::item::ItemView;
use crate::limiter::RateLimiter;

/// A table without its extensions, which look at it while they run.
pub(crate) struct State {
    pub(crate) config: Arc<TableConfig>,
    pub(crate) limiter: RateLimiter,
    pub(crate) contents: Contents,
    pub(crate) counters: Counters,
    /// The numbers of items; not set back by a reset.
    pub(crate) sequence: Sequence,
    /// Whether items still have to leave because the rules were changed.
    pub(crate) is_shrinking: bool,
    /// Whether `max_times_sampled` was changed in use.
    pub(crate) is_limit_changed: bool,
    /// Somebody who collects what the table held at an earlier moment.
    pub(crate) capture: Option<Box<Capture>>,
    /// Where the chunks of the items are counted.
    pub(crate) ledger: Arc<Ledger>,
}

/// Counters since the last reset, beside those of the rate limiter.
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
