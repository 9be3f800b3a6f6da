//! Items that have left a table but have not been dropped yet.

use std::sync::Arc;

use relive_tensor::Trajectory;

use super::contents::Contents;
use super::record::Record;
use crate::item::ItemData;

/// Items and data that operations removed from tables.
///
/// Dropping the last reference to an item frees its chunks, which is too slow under a table's lock. Operations
/// therefore move the removed data here. Drop or [`clear`](Self::clear) this value outside the lock.
#[derive(Debug, Default)]
pub struct Freed {
    items: Vec<Arc<ItemData>>,
    /// The data of items that were refused or whose key already existed.
    trajectories: Vec<Trajectory>,
    /// The contents of reset tables. A running capture may share them.
    contents: Vec<Arc<Contents>>,
}

impl Freed {
    /// Returns whether there are no removed items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of removed items.
    pub fn len(&self) -> usize {
        let in_contents: usize = self.contents.iter().map(|contents| contents.items.len()).sum();
        self.items.len() + self.trajectories.len() + in_contents
    }

    /// Iterates over the items that left a table, without data that was never inserted.
    pub fn removed(&self) -> impl Iterator<Item = &Arc<ItemData>> {
        let reset = self.contents.iter().flat_map(|contents| contents.items.records()).map(Record::data);
        self.items.iter().chain(reset)
    }

    /// Moves everything from `other` into this value.
    pub fn append(&mut self, other: &mut Self) {
        self.items.append(&mut other.items);
        self.trajectories.append(&mut other.trajectories);
        self.contents.append(&mut other.contents);
    }

    /// Drops everything, but keeps the vectors' memory for reuse.
    pub fn clear(&mut self) {
        self.items.clear();
        self.trajectories.clear();
        self.contents.clear();
    }

    pub(crate) fn push_item(&mut self, item: Arc<ItemData>) {
        self.items.push(item);
    }

    pub(crate) fn push_trajectory(&mut self, trajectory: Trajectory) {
        self.trajectories.push(trajectory);
    }

    pub(crate) fn push_contents(&mut self, contents: Arc<Contents>) {
        if contents.items.len() > 0 {
            self.contents.push(contents);
        }
    }
}
