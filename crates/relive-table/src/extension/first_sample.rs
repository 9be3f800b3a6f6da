//! Copying items to another table when they are first used.

use std::sync::Arc;

use crate::extension::{Context, Extension};
use crate::item::{ItemView, NewItem};

/// Inserts a copy of every item into another table when it is sampled for the first time: same key, priority and
/// data, sampled once.
///
/// With a queue in front and a replay table behind, items enter the replay only once a learner has seen them.
#[derive(Clone, Debug)]
pub struct InsertOnFirstSample {
    target: Arc<str>,
}

impl InsertOnFirstSample {
    /// Copies go to the table of this name.
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
