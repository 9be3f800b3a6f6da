//! An item on its way through a graph.

use std::fmt;

/// Where an item comes from: the number of a shard.
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
    /// Its source; none if it has none, or was made of items of several.
    pub source: Option<Source>,
}

impl<T> Tagged<T> {
    /// Another item of the same source.
    #[must_use]
    pub fn with<U>(&self, item: U) -> Tagged<U> {
        Tagged { item, source: self.source }
    }
}
