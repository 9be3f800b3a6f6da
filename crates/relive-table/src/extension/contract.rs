//! What an extension is told, and what it may ask for.

use std::sync::Arc;

use crate::config::TableConfig;
use crate::item::{ItemView, NewItem};
use crate::storage::State;

/// Something that takes part in every operation of a table.
///
/// Hooks run inside the operation, after its own effect and before anyone else sees the table; they must be quick
/// and must not fail. What they ask for through [`Context`] is done before the operation ends, or handed to the
/// caller of the operation where it concerns another table. No hooks run for what extensions asked for.
pub trait Extension: Send {
    /// An item is in the table. If the table is too full, the eviction comes after this.
    fn on_insert(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>) {}

    /// An item has another priority than `previous`.
    fn on_update(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>, _previous: f64) {}

    /// An item was sampled; its count includes this time. If this was its last time, the deletion comes after this.
    fn on_sample(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>) {}

    /// An item has left the table.
    fn on_delete(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>) {}

    /// All items are about to leave the table; `on_delete` does not run for them.
    fn on_reset(&mut self) {}

    /// An item is in the table from the beginning, because the table was restored. It counts as no insert, and its
    /// priority stays what it was.
    fn on_restore(&mut self, _item: ItemView<'_>) {}

    /// What the extension has measured, for people and dashboards.
    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }
}

/// A number that an extension has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// What it is, in snake case, with its unit last if it has one.
    pub name: &'static str,
    /// How much it is.
    pub value: f64,
}

/// The table as an extension sees it from inside an operation.
pub struct Context<'a> {
    state: &'a State,
    requests: &'a mut Requests,
}

/// Something to be done in another table.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Insert an item, as a client would.
    InsertInto {
        /// Name of the other table.
        table: Arc<str>,
        /// The item.
        item: NewItem,
    },
}

/// What extensions have asked for and is still to be done.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// In this table, before the operation ends.
    pub(crate) priorities: Vec<PriorityRequest>,
    /// In other tables, by the caller of the operation.
    pub(crate) effects: Vec<Effect>,
}

/// A change of an item's priority that an extension has asked for.
#[derive(Debug)]
pub(crate) struct PriorityRequest {
    pub(crate) key: u64,
    pub(crate) priority: f64,
    /// Leave the item alone if its priority is as high already.
    pub(crate) only_raise: bool,
}

impl<'a> Context<'a> {
    pub(crate) fn new(state: &'a State, requests: &'a mut Requests) -> Self {
        Self { state, requests }
    }

    /// The table's rules.
    pub fn config(&self) -> &TableConfig {
        self.state.config()
    }

    /// An item of the table.
    pub fn get(&self, key: u64) -> Option<ItemView<'_>> {
        self.state.get(key)
    }

    /// Asks for another priority of an item of this table. An unknown key is ignored; a priority that a selector
    /// refuses is not taken, and counted in
    /// [`TableInfo::num_refused_requests`](crate::TableInfo::num_refused_requests).
    pub fn update_priority(&mut self, key: u64, priority: f64) {
        self.requests.priorities.push(PriorityRequest { key, priority, only_raise: false });
    }

    /// As [`update_priority`](Self::update_priority), unless the item's priority is as high already.
    pub fn raise_priority(&mut self, key: u64, at_least: f64) {
        self.requests.priorities.push(PriorityRequest { key, priority: at_least, only_raise: true });
    }

    /// Asks for an item to be inserted into another table, after this operation and outside of this table's lock.
    pub fn insert_into(&mut self, table: Arc<str>, item: NewItem) {
        self.requests.effects.push(Effect::InsertInto { table, item });
    }
}
