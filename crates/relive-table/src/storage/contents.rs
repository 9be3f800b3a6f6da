//! The content of a table: its items in their slots and in both selectors.

use std::sync::Arc;

use relive_tensor::{Account, Ledger, Trajectory};

use super::common::Common;
use super::episodes::Episodes;
use super::items::Items;
use crate::config::TableConfig;
use crate::selector::{PriorityError, Rank, Ranks, Select, Selector, Slot};

/// The part of a table that a reset replaces as a whole.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) items: Items,
    pub(crate) sampler: Selector,
    pub(crate) remover: Selector,
    pub(crate) episodes: Episodes,
    /// The account of the items' chunks. Each chunk is counted once.
    pub(crate) account: Arc<Account>,
}

/// A priority that both selectors have accepted.
#[derive(Clone, Copy)]
pub(crate) struct Admitted {
    pub(crate) priority: f64,
    sampler: Rank,
    remover: Rank,
}

/// Priorities that both selectors accept for any slots.
pub(crate) struct AdmittedMany {
    sampler: Ranks,
    remover: Ranks,
}

impl Contents {
    pub(crate) fn new(config: &TableConfig, ledger: &Ledger) -> Self {
        Self::counted(config, ledger.open_account(), Episodes::default())
    }

    /// Creates empty contents of a shard.
    pub(crate) fn of_shard(config: &TableConfig, common: &Common, shard: usize) -> Self {
        Self::counted(config, common.account(shard), common.episodes())
    }

    fn counted(config: &TableConfig, account: Arc<Account>, episodes: Episodes) -> Self {
        let (sampler, remover) = (Selector::new(config.sampler), Selector::new(config.remover));
        Self { items: Items::default(), sampler, remover, episodes, account }
    }

    /// Counts the chunks of an inserted item.
    pub(crate) fn hold(&mut self, trajectory: &Trajectory) {
        self.episodes.add(trajectory);
        trajectory.chunks().iter().for_each(|chunk| chunk.hold(&self.account));
    }

    /// Stops counting the chunks of an item that leaves the table. Returns the number of episodes that lost their last
    /// data.
    pub(crate) fn release(&mut self, trajectory: &Trajectory) -> u64 {
        trajectory.chunks().iter().for_each(|chunk| chunk.release(&self.account));
        self.episodes.remove(trajectory)
    }

    pub(crate) fn admit(&self, replaced: Option<Slot>, priority: f64) -> Result<Admitted, PriorityError> {
        let sampler = self.sampler.admit(replaced, priority)?;
        let remover = self.remover.admit(replaced, priority)?;
        Ok(Admitted { priority, sampler, remover })
    }

    /// Returns the admitted priorities, or `None` unless all of them are certain to be accepted.
    pub(crate) fn admit_many(&self, priorities: &[f64]) -> Option<AdmittedMany> {
        let sampler = self.sampler.admit_many(priorities)?;
        let remover = self.remover.admit_many(priorities)?;
        Some(AdmittedMany { sampler, remover })
    }

    pub(crate) fn reselect_many(&mut self, slots: &[Slot], admitted: &AdmittedMany) {
        self.sampler.update_many(slots, &admitted.sampler);
        self.remover.update_many(slots, &admitted.remover);
    }

    pub(crate) fn select(&mut self, slot: Slot, admitted: Admitted) {
        let inserted =
            self.sampler.insert(slot, admitted.sampler) && self.remover.insert(slot, admitted.remover);
        debug_assert!(inserted, "slot {slot} was vacant, but was in a selector");
    }

    pub(crate) fn reselect(&mut self, slot: Slot, admitted: Admitted) {
        let updated =
            self.sampler.update(slot, admitted.sampler) && self.remover.update(slot, admitted.remover);
        debug_assert!(updated, "slot {slot} was in use, but was not in every selector");
    }

    pub(crate) fn deselect(&mut self, slot: Slot) {
        let removed = self.sampler.remove(slot) && self.remover.remove(slot);
        debug_assert!(removed, "slot {slot} was in use, but was not in every selector");
    }
}

impl Drop for Contents {
    /// Chunks may stay alive because other tables or readers refer to them.
    fn drop(&mut self) {
        for record in self.items.records() {
            record.data().trajectory.chunks().iter().for_each(|chunk| chunk.release(&self.account));
        }
    }
}
