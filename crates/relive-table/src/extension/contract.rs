//! The trait of extensions, and the requests that they can make.

use std::sync::Arc;

use crate::config::TableConfig;
use crate::item::{ItemView, NewItem};
use crate::storage::State;

/// Code that runs as part of every operation of a table.
///
/// Hooks run inside the operation, after its effect and before any other operation can access the table. They must be
/// fast and must not fail.
///
/// Requests made through [`Context`] are carried out before the operation ends; those that concern another table are
/// returned to the caller of the operation. Carrying out a request runs no hooks.
pub trait Extension: Send {
    /// Called after an item was inserted. If the table then exceeds its bounds, items are evicted after this call.
    fn on_insert(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>) {}

    /// Called after an item's priority changed from `previous`.
    fn on_update(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>, _previous: f64) {}

    /// Called after an item was sampled. Its count includes this sample. If this was its last sample, the item is
    /// removed afterwards.
    fn on_sample(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>) {}

    /// Called after an item left the table.
    fn on_delete(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>) {}

    /// Called before a reset removes all items. `on_delete` is not called for them.
    fn on_reset(&mut self) {}

    /// Called for each item of a restored table. Restoring does not count as an insert, and the item keeps its
    /// priority.
    fn on_restore(&mut self, _item: ItemView<'_>) {}

    /// Returns the extension's measurements, for people and dashboards.
    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }
}

/// A measurement from an extension.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The name in snake case. It ends with the unit, if there is one.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

/// The table as an extension sees it from inside an operation.
pub struct Context<'a> {
    state: &'a State,
    requests: &'a mut Requests,
}

/// An operation on another table.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Insert an item, as a client would.
    InsertInto {
        /// The name of the other table.
        table: Arc<str>,
        /// The item.
        item: NewItem,
    },
}

/// Requests from extensions that have not been carried out yet.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Requests for this table, carried out before the operation ends.
    pub(crate) priorities: Vec<PriorityRequest>,
    /// Requests for other tables, carried out by the caller of the operation.
    pub(crate) effects: Vec<Effect>,
}

/// An extension's request to change an item's priority.
#[derive(Debug)]
pub(crate) struct PriorityRequest {
    pub(crate) key: u64,
    pub(crate) priority: f64,
    /// Whether to change the priority only if it is lower than the requested one.
    pub(crate) only_raise: bool,
}

impl<'a> Context<'a> {
    pub(crate) fn new(state: &'a State, requests: &'a mut Requests) -> Self {
        Self { state, requests }
    }

    /// Returns the table's rules.
    pub fn config(&self) -> &TableConfig {
        self.state.config()
    }

    /// Returns an item of the table.
    pub fn get(&self, key: u64) -> Option<ItemView<'_>> {
        self.state.get(key)
    }

    /// Requests a new priority for an item of this table. Unknown keys are ignored. A priority that a selector refuses
    /// is ignored, and counted in [`TableInfo::num_refused_requests`](crate::TableInfo::num_refused_requests).
    pub fn update_priority(&mut self, key: u64, priority: f64) {
        self.requests.priorities.push(PriorityRequest { key, priority, only_raise: false });
    }

    /// Like [`update_priority`](Self::update_priority), but can only raise the item's priority.
    pub fn raise_priority(&mut self, key: u64, at_least: f64) {
        self.requests.priorities.push(PriorityRequest { key, priority: at_least, only_raise: true });
    }

    /// Requests that an item be inserted into another table, after this operation and outside this table's lock.
    pub fn insert_into(&mut self, table: Arc<str>, item: NewItem) {
        self.requests.effects.push(Effect::InsertInto { table, item });
    }
}
