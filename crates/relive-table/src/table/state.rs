//! What a table is made of.

use std::sync::Arc;

use relive_tensor::{Account, Ledger, Trajectory};

use crate::common::{Common, Sequence};
use crate::episodes::Episodes;
use crate::extension::Requests;
use crate::items::Items;
use crate::selector::{Rank, Ranks, Select, Selector, Slot};
use crate::{Capture, ConfigError, Extension, ItemView, PriorityError, RateLimiter, TableConfig};

/// A set of items with a rule for reading, a rule for removing and a rate limiter.
///
/// Operations check nothing about waiting: whoever inserts asks [`can_insert`](Self::can_insert) first. An
/// operation that returns an error has changed nothing.
pub struct Table {
    pub(super) state: State,
    pub(super) extensions: Vec<Box<dyn Extension>>,
    /// What the extensions asked for and has not been done yet.
    pub(super) requests: Requests,
}

/// A table without its extensions, which look at it while they run.
pub(crate) struct State {
    pub(super) config: Arc<TableConfig>,
    pub(super) limiter: RateLimiter,
    pub(super) contents: Contents,
    pub(super) counters: Counters,
    /// The numbers of items; not set back by a reset.
    pub(super) sequence: Sequence,
    /// Whether items still have to leave because the rules were changed.
    pub(super) is_shrinking: bool,
    /// Whether `max_times_sampled` was changed in use.
    pub(super) is_limit_changed: bool,
    /// Somebody who collects what the table held at an earlier moment.
    pub(super) capture: Option<Box<Capture>>,
    /// Where the chunks of the items are counted.
    pub(super) ledger: Arc<Ledger>,
}

/// What a reset replaces as a whole.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) items: Items,
    pub(super) sampler: Selector,
    pub(super) remover: Selector,
    pub(super) episodes: Episodes,
    /// The chunks of the items, each counted once.
    pub(super) account: Arc<Account>,
}

/// Counters since the last reset, beside those of the rate limiter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) deleted_episodes: u64,
    pub(super) unique_samples: u64,
    pub(super) refused_requests: u64,
}

/// A priority that both selectors have accepted.
#[derive(Clone, Copy)]
pub(super) struct Admitted {
    pub(super) priority: f64,
    sampler: Rank,
    remover: Rank,
}

/// Priorities that both selectors have accepted, whatever slots they are of.
pub(super) struct AdmittedMany {
    sampler: Ranks,
    remover: Ranks,
}

impl Contents {
    pub(super) fn new(config: &TableConfig, ledger: &Ledger) -> Self {
        Self::counted(config, ledger.open_account(), Episodes::default())
    }

    /// Empty contents of a shard.
    pub(super) fn of_shard(config: &TableConfig, common: &Common, shard: usize) -> Self {
        Self::counted(config, common.account(shard), common.episodes())
    }

    fn counted(config: &TableConfig, account: Arc<Account>, episodes: Episodes) -> Self {
        let (sampler, remover) = (Selector::new(config.sampler), Selector::new(config.remover));
        Self { items: Items::default(), sampler, remover, episodes, account }
    }

    /// Counts the chunks of an item that enters.
    pub(super) fn hold(&mut self, trajectory: &Trajectory) {
        self.episodes.add(trajectory);
        trajectory.chunks().iter().for_each(|chunk| chunk.hold(&self.account));
    }

    /// Counts the chunks of an item that leaves. Returns how many episodes have lost their last data.
    pub(super) fn release(&mut self, trajectory: &Trajectory) -> u64 {
        trajectory.chunks().iter().for_each(|chunk| chunk.release(&self.account));
        self.episodes.remove(trajectory)
    }

    pub(super) fn admit(&self, replaced: Option<Slot>, priority: f64) -> Result<Admitted, PriorityError> {
        let sampler = self.sampler.admit(replaced, priority)?;
        let remover = self.remover.admit(replaced, priority)?;
        Ok(Admitted { priority, sampler, remover })
    }

    /// None unless all are certain to be accepted one after the other.
    pub(super) fn admit_many(&self, priorities: &[f64]) -> Option<AdmittedMany> {
        let sampler = self.sampler.admit_many(priorities)?;
        let remover = self.remover.admit_many(priorities)?;
        Some(AdmittedMany { sampler, remover })
    }

    pub(super) fn reselect_many(&mut self, slots: &[Slot], admitted: &AdmittedMany) {
        self.sampler.update_many(slots, &admitted.sampler);
        self.remover.update_many(slots, &admitted.remover);
    }

    pub(super) fn select(&mut self, slot: Slot, admitted: Admitted) {
        let inserted =
            self.sampler.insert(slot, admitted.sampler) && self.remover.insert(slot, admitted.remover);
        debug_assert!(inserted, "slot {slot} was vacant and yet in a selector");
    }

    pub(super) fn reselect(&mut self, slot: Slot, admitted: Admitted) {
        let updated =
            self.sampler.update(slot, admitted.sampler) && self.remover.update(slot, admitted.remover);
        debug_assert!(updated, "slot {slot} was held and yet in no selector");
    }

    pub(super) fn deselect(&mut self, slot: Slot) {
        let removed = self.sampler.remove(slot) && self.remover.remove(slot);
        debug_assert!(removed, "slot {slot} was held and yet in no selector");
    }
}

impl Drop for Contents {
    /// Chunks may live on in other tables, or with readers.
    fn drop(&mut self) {
        for record in self.items.records() {
            record.data().trajectory.chunks().iter().for_each(|chunk| chunk.release(&self.account));
        }
    }
}

impl State {
    pub(crate) fn get(&self, key: u64) -> Option<ItemView<'_>> {
        let slot = self.contents.items.find(key)?;
        self.contents.items.get(slot).map(crate::record::Record::view)
    }

    pub(crate) fn config(&self) -> &Arc<TableConfig> {
        &self.config
    }
}

impl Table {
    /// An empty table with a ledger of its own.
    ///
    /// # Errors
    /// Rules that [`TableConfig::validate`] refuses.
    pub fn new(config: TableConfig, extensions: Vec<Box<dyn Extension>>) -> Result<Self, ConfigError> {
        Self::in_ledger(config, extensions, Arc::default())
    }

    /// An empty table whose items' chunks are counted in `ledger`. Tables of one ledger know what they share.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_ledger(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        ledger: Arc<Ledger>,
    ) -> Result<Self, ConfigError> {
        let contents = Contents::new(&config, &ledger);
        Self::of(config, extensions, ledger, contents, Sequence::default())
    }

    /// One of several tables that together are one: the shard number `shard`, from 0 on. Its rules are its own, its `max_size`
    /// is its share.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn shard(config: TableConfig, common: &Common, shard: usize) -> Result<Self, ConfigError> {
        let contents = Contents::of_shard(&config, common, shard);
        Self::of(config, Vec::new(), Arc::clone(&common.ledger), contents, common.sequence())
    }

    fn of(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        ledger: Arc<Ledger>,
        contents: Contents,
        sequence: Sequence,
    ) -> Result<Self, ConfigError> {
        config.validate_ranges()?;
        let limiter = RateLimiter::new(config.rate_limiter)
            .map_err(|source| ConfigError::RateLimiter { table: config.name.clone(), source })?;
        let (config, counters) = (Arc::new(config), Counters::default());
        let state = State {
            config,
            limiter,
            contents,
            counters,
            sequence,
            is_shrinking: false,
            is_limit_changed: false,
            capture: None,
            ledger,
        };
        Ok(Self { state, extensions, requests: Requests::default() })
    }

    /// Checks a priority without an item, as far as that goes: the sum of all weights is looked at by the insert
    /// or the update itself.
    ///
    /// # Errors
    /// What [`SelectorKind::check_priority`](crate::SelectorKind::check_priority) of the sampler or the remover
    /// says.
    pub fn check_priority(&self, priority: f64) -> Result<(), PriorityError> {
        self.state.config.sampler.check_priority(priority)?;
        self.state.config.remover.check_priority(priority)
    }
}
