//! Runs extensions and carries out their requests.

use crate::extension::{Context, Effect, Extension, Metric, PriorityRequest};
use crate::item::ItemView;
use crate::selector::Slot;
use crate::storage::Record;
use crate::table::Table;

impl Table {
    /// Takes the requests for other tables that extensions have made since the last call, in order.
    pub fn drain_effects(&mut self) -> Vec<Effect> {
        core::mem::take(&mut self.requests.effects)
    }

    /// Returns the measurements from the extensions.
    pub fn metrics(&self) -> Vec<Metric> {
        self.extensions.iter().flat_map(|extension| extension.metrics()).collect()
    }

    /// Calls a hook of every extension for an item of the table.
    pub(super) fn notify(
        &mut self,
        slot: Slot,
        hook: impl Fn(&mut dyn Extension, &mut Context<'_>, ItemView<'_>),
    ) {
        if self.extensions.is_empty() {
            return;
        }
        let Some(record) = self.state.contents.items.get(slot) else { return };
        let mut context = Context::new(&self.state, &mut self.requests);
        for extension in &mut self.extensions {
            hook(extension.as_mut(), &mut context, record.view());
        }
        self.fulfil();
    }

    /// Calls `on_delete` of every extension for an item that has left the table.
    pub(super) fn notify_deleted(&mut self, record: &Record) {
        if self.extensions.is_empty() {
            return;
        }
        let mut context = Context::new(&self.state, &mut self.requests);
        for extension in &mut self.extensions {
            extension.on_delete(&mut context, record.view());
        }
        self.fulfil();
    }

    /// Calls `on_restore` of every extension for every item, in insertion order.
    pub(super) fn notify_restored(&mut self) {
        if self.extensions.is_empty() {
            return;
        }
        let mut records: Vec<&Record> = self.state.contents.items.records().collect();
        records.sort_unstable_by_key(|record| record.data().sequence);
        for record in records {
            self.extensions.iter_mut().for_each(|extension| extension.on_restore(record.view()));
        }
    }

    /// Calls `on_reset` of every extension before the items are removed.
    pub(super) fn notify_reset(&mut self) {
        for extension in &mut self.extensions {
            extension.on_reset();
        }
    }

    /// Carries out the requests from extensions for this table. This runs no hooks, so requests cannot loop.
    fn fulfil(&mut self) {
        let mut priorities = core::mem::take(&mut self.requests.priorities);
        for PriorityRequest { key, priority, only_raise } in priorities.drain(..) {
            let Some(slot) = self.state.contents.items.find(key) else { continue };
            let now = self.state.contents.items.get(slot).map(|record| record.priority);
            if only_raise && now.is_some_and(|now| now >= priority) {
                continue;
            }
            match self.state.contents.admit(Some(slot), priority) {
                Ok(admitted) => drop(self.state.set_priority(slot, admitted)),
                Err(_) => self.state.counters.refused_requests += 1,
            }
        }
        self.requests.priorities = priorities;
    }
}
