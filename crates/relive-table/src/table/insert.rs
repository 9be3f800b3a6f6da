//! Inserting an item.

use std::sync::Arc;

use rand_core::Rng;

use super::state::{Admitted, State};
use crate::items::Record;
use crate::selector::{Select, Slot};
use crate::{Freed, InsertError, ItemData, NewItem, PriorityError, Table, Timestamp};

/// What an insert did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// The item is new. It is in the table, unless it is itself the one that was evicted.
    Inserted {
        /// The key of the item that had to leave because the table was full.
        evicted: Option<u64>,
    },
    /// The key was there already: its priority has changed, and nothing else. This is no insert to the rate limiter.
    Updated,
}

impl Table {
    /// Inserts an item, and evicts the remover's choice if the table then holds more than `max_size`: the new item
    /// itself may be that choice. Of an item whose key is there already only the priority is taken.
    ///
    /// Whether the rate limiter allows it has been asked before, of [`can_insert`](Self::can_insert).
    ///
    /// # Errors
    /// [`InsertError`] if a selector refuses the priority. Nothing has changed, and the item's data is in `freed`.
    pub fn insert<R: Rng + ?Sized>(
        &mut self,
        item: NewItem,
        now: Timestamp,
        rng: &mut R,
        freed: &mut Freed,
    ) -> Result<InsertOutcome, InsertError> {
        if let Some(slot) = self.state.contents.items.find(item.key) {
            let updated = self.update_slot(slot, item.priority);
            return self.settle(item, freed, updated).map(|()| InsertOutcome::Updated);
        }
        let admitted = match self.state.contents.admit(None, item.priority) {
            Ok(admitted) => admitted,
            Err(error) => return self.settle(item, freed, Err(error)).map(|()| InsertOutcome::Updated),
        };
        let slot = self.state.add(item, now, admitted);
        self.notify(slot, |extension, context, view| extension.on_insert(context, view));
        let evicted = self.evict_excess(rng, freed);
        self.state.limiter.record_insert();
        Ok(InsertOutcome::Inserted { evicted })
    }

    /// Bins the data of an item that does not enter the table, and says why it did not.
    fn settle(
        &self,
        item: NewItem,
        freed: &mut Freed,
        result: Result<(), PriorityError>,
    ) -> Result<(), InsertError> {
        let NewItem { key, trajectory, .. } = item;
        freed.push_trajectory(trajectory);
        result.map_err(|source| InsertError::Priority { table: self.state.config.name.clone(), key, source })
    }

    fn evict_excess<R: Rng + ?Sized>(&mut self, rng: &mut R, freed: &mut Freed) -> Option<u64> {
        if self.len() <= self.state.config.max_size {
            return None;
        }
        let pick = self.state.contents.remover.pick(rng)?;
        self.remove_slot(pick.slot, freed)
    }
}

impl State {
    fn add(&mut self, item: NewItem, now: Timestamp, admitted: Admitted) -> Slot {
        let NewItem { key, priority, times_sampled, trajectory } = item;
        self.contents.episodes.add(&trajectory);
        let data = Arc::new(ItemData { key, sequence: self.next_sequence, inserted_at: now, trajectory });
        self.next_sequence += 1;
        let slot = self.contents.items.insert(Record { data, key, priority, times_sampled });
        self.contents.select(slot, admitted);
        slot
    }
}
