//! Changes the priorities of items.

use smallvec::SmallVec;

use crate::selector::{MAX_SIDE_BY_SIDE, PriorityError, Slot};
use crate::storage::{Admitted, AdmittedMany, State};
use crate::table::Table;

/// A priority that was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedUpdate {
    /// The item.
    pub key: u64,
    /// Why.
    pub source: PriorityError,
}

/// The slots of items that are updated together, and their new priorities.
type FoundSlots = (SmallVec<[Slot; MAX_SIDE_BY_SIDE]>, SmallVec<[f64; MAX_SIDE_BY_SIDE]>);

impl Table {
    /// Changes the priority of an item. Returns false if there is no such item, which is not an error.
    ///
    /// # Errors
    /// [`PriorityError`] if a selector refuses the priority. In that case, nothing has changed.
    pub fn update_priority(&mut self, key: u64, priority: f64) -> Result<bool, PriorityError> {
        match self.state.contents.items.find(key) {
            Some(slot) => self.update_slot(slot, priority).map(|()| true),
            None => Ok(false),
        }
    }

    /// Changes the priorities of items by key. Unknown keys are ignored.
    ///
    /// This is equivalent to a sequence of calls to [`update_priority`](Self::update_priority), up to the first refused
    /// one.
    ///
    /// # Errors
    /// [`RefusedUpdate`] if a selector refuses a priority. The preceding updates have been made.
    pub fn update_priorities(&mut self, updates: &[(u64, f64)]) -> Result<(), RefusedUpdate> {
        for stage in updates.chunks(MAX_SIDE_BY_SIDE) {
            let (slots, priorities) = self.state.find_all(stage);
            match self.state.contents.admit_many(&priorities) {
                Some(admitted) if self.extensions.is_empty() => {
                    self.state.set_priorities(&slots, &priorities, &admitted);
                }
                _ => self.update_one_by_one(stage)?,
            }
        }
        Ok(())
    }

    fn update_one_by_one(&mut self, updates: &[(u64, f64)]) -> Result<(), RefusedUpdate> {
        for &(key, priority) in updates {
            self.update_priority(key, priority).map_err(|source| RefusedUpdate { key, source })?;
        }
        Ok(())
    }

    pub(super) fn update_slot(&mut self, slot: Slot, priority: f64) -> Result<(), PriorityError> {
        let admitted = self.state.contents.admit(Some(slot), priority)?;
        let previous = self.state.set_priority(slot, admitted);
        self.notify(slot, |extension, context, view| extension.on_update(context, view, previous));
        Ok(())
    }
}

impl State {
    /// Returns the previous priority.
    pub(super) fn set_priority(&mut self, slot: Slot, admitted: Admitted) -> f64 {
        self.before_change(slot);
        self.contents.reselect(slot, admitted);
        let record = self.contents.items.get_mut(slot);
        record.map_or(admitted.priority, |record| core::mem::replace(&mut record.priority, admitted.priority))
    }

    /// Returns the existing items of `updates` and their new priorities.
    fn find_all(&self, updates: &[(u64, f64)]) -> FoundSlots {
        let items = &self.contents.items;
        let hashes: SmallVec<[u64; MAX_SIDE_BY_SIDE]> =
            updates.iter().map(|&(key, _)| items.hash(key)).collect();
        hashes.iter().for_each(|&hash| items.prefetch_bucket(hash));
        let found = |(&hash, &(key, priority))| Some((items.find_hashed(hash, key)?, priority));
        hashes.iter().zip(updates).filter_map(found).unzip()
    }

    /// Changes the priorities of existing slots to admitted values.
    fn set_priorities(&mut self, slots: &[Slot], priorities: &[f64], admitted: &AdmittedMany) {
        slots.iter().for_each(|&slot| self.before_change(slot));
        self.contents.reselect_many(slots, admitted);
        for (&slot, &priority) in slots.iter().zip(priorities) {
            if let Some(record) = self.contents.items.get_mut(slot) {
                record.priority = priority;
            }
        }
    }
}
