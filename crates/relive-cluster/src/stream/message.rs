//! What the two ends of a stream tell each other.

use bytes::Bytes;

use super::limits::ITEM_OVERHEAD;

/// What a stream carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An item.
    Data(Bytes),
    /// Why the shard could not make one; it may go on behind it.
    Failed(String),
    /// The last: the shard has ended.
    End,
}

impl Item {
    /// What it counts for in a window.
    pub(super) fn cost(&self) -> u64 {
        let bytes = match self {
            Item::Data(bytes) => bytes.len(),
            Item::Failed(text) => text.len(),
            Item::End => 0,
        };
        bytes as u64 + ITEM_OVERHEAD
    }
}

/// From a shard to its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromShard {
    /// Asks where the reader stands: when a connection begins, when no answer came, and now and then as a sign of life.
    Hello {
        /// How often the shard has begun.
        epoch: u64,
        /// Counts these questions, so that the answer to an older one is known as such.
        question: u32,
        /// The first item that the reader has not confirmed, which has the writer's memory still, …
        first: u64,
        /// … and the cost of all items before it.
        cost: u64,
    },
    /// Items that follow each other.
    Items {
        /// How often the shard has begun.
        epoch: u64,
        /// The number of the first of them.
        first: u64,
        /// The items.
        items: Vec<Item>,
    },
}

/// From the reader to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToShard {
    /// Where the reader stands, and how far the shard may go.
    Credit {
        /// Of which epoch that is.
        epoch: u64,
        /// The last question that was heard.
        question: u32,
        /// The next item that it expects.
        next: u64,
        /// Items that were taken: confirmed, never to be sent again.
        taken: u64,
        /// Items may have numbers below this, …
        items: u64,
        /// … and may begin where all items before cost less than this.
        cost: u64,
    },
    /// The shard has begun anew elsewhere: whoever gets this is to end.
    Replaced {
        /// The epoch that is known.
        by: u64,
    },
    /// The reader wants no more.
    Closed,
}
