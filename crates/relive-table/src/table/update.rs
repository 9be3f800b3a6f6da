//! Changing the priority of an item.

use super::state::{Admitted, State};
use crate::selector::Slot;
use crate::{PriorityError, Table};

impl Table {
    /// Changes the priority of an item. False if there is no such item, which is no error.
    ///
    /// # Errors
    /// [`PriorityError`] if a selector refuses the priority. Nothing has changed.
    pub fn update_priority(&mut self, key: u64, priority: f64) -> Result<bool, PriorityError> {
        match self.state.contents.items.find(key) {
            Some(slot) => self.update_slot(slot, priority).map(|()| true),
            None => Ok(false),
        }
    }

    pub(super) fn update_slot(&mut self, slot: Slot, priority: f64) -> Result<(), PriorityError> {
        let admitted = self.state.contents.admit(Some(slot), priority)?;
        let previous = self.state.set_priority(slot, admitted);
        self.notify(slot, |extension, context, view| extension.on_update(context, view, previous));
        Ok(())
    }
}

impl State {
    /// Returns the priority that was replaced.
    pub(super) fn set_priority(&mut self, slot: Slot, admitted: Admitted) -> f64 {
        self.before_change(slot);
        self.contents.reselect(slot, admitted);
        let record = self.contents.items.get_mut(slot);
        record.map_or(admitted.priority, |record| core::mem::replace(&mut record.priority, admitted.priority))
    }
}
