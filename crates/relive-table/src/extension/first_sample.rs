//! Copies items to another table when they are first sampled.

use std::sync::Arc;

use crate::extension::{Context, Extension};
use crate::item::{ItemView, NewItem};

/// Inserts a copy of every item into another table when the item is sampled for the first time. The copy has the same
/// key, priority and data, and counts as sampled once.
///
/// If this table is a queue and the other one a replay table, items enter the replay table once a learner has seen
/// them.
#[derive(Clone, Debug)]
pub struct InsertOnFirstSample {
    target: Arc<str>,
}

impl InsertOnFirstSample {
    /// Creates the extension. `target` is the name of the other table.
    pub fn new(target: impl Into<Arc<str>>) -> Self {
        Self { target: target.into() }
    }
}

impl Extension for InsertOnFirstSample {
    fn on_sample(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        if item.times_sampled != 1 {
            return;
        }
        let copy = NewItem {
            key: item.data.key,
            priority: item.priority,
            times_sampled: 1,
            trajectory: item.data.trajectory.clone(),
        };
        context.insert_into(Arc::clone(&self.target), copy);
    }
}
