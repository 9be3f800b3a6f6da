//! Deletes one item, or all items.

use std::sync::Arc;

use crate::selector::Slot;
use crate::storage::{Common, Contents, Counters, Freed};
use crate::table::Table;

impl Table {
    /// Deletes an item. Returns false if there is no such item, which is not an error.
    pub fn delete(&mut self, key: u64, freed: &mut Freed) -> bool {
        match self.state.contents.items.find(key) {
            Some(slot) => self.remove_slot(slot, freed).is_some(),
            None => false,
        }
    }

    /// Empties the table and sets all its counters to 0, including the rate limiter's. Sampled items stay alive with
    /// their readers.
    ///
    /// This takes the same short time for any number of items, which are removed as a whole.
    pub fn reset(&mut self, freed: &mut Freed) {
        let empty = Contents::new(&self.state.config, &self.state.ledger);
        self.replace_contents(empty, freed);
    }

    /// Empties shard number `shard`, which then uses the counters of `common`, [emptied](Common::emptied) for all
    /// shards.
    pub fn reset_shard(&mut self, common: &Common, shard: usize, freed: &mut Freed) {
        let empty = Contents::of_shard(&self.state.config, common, shard);
        self.replace_contents(empty, freed);
    }

    fn replace_contents(&mut self, empty: Contents, freed: &mut Freed) {
        self.notify_reset();
        let state = &mut self.state;
        let left = Arc::new(core::mem::replace(&mut state.contents, empty));
        if let Some(capture) = &mut state.capture {
            capture.keep(&left);
        }
        freed.push_contents(left);
        state.limiter.reset();
        state.counters = Counters::default();
    }

    /// Removes the item in a slot. Every removal of a single item uses this. Returns its key.
    pub(super) fn remove_slot(&mut self, slot: Slot, freed: &mut Freed) -> Option<u64> {
        self.state.before_change(slot);
        let contents = &mut self.state.contents;
        let record = contents.items.remove(slot)?;
        contents.deselect(slot);
        self.state.counters.deleted_episodes += contents.release(&record.data().trajectory);
        self.state.limiter.record_delete();
        self.notify_deleted(&record);
        let key = record.key;
        freed.push_item(record.into_data());
        Some(key)
    }
}
