//! Items in a graph.

use std::fmt;

/// The origin of an item: the number of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(pub u32);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

/// An item and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged<T> {
    /// The item.
    pub item: T,
    /// The item's source, or `None` if the item has no source, or combines items from several sources.
    pub source: Option<Source>,
}

impl<T> Tagged<T> {
    /// Returns a different item with the same source.
    #[must_use]
    pub fn with<U>(&self, item: U) -> Tagged<U> {
        Tagged { item, source: self.source }
    }
}
