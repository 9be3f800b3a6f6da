//! The messages between the two ends of a stream.

use bytes::Bytes;

use super::limits::ITEM_OVERHEAD;

/// What a stream carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An item.
    Data(Bytes),
    /// The reason why the shard could not produce an item. The shard may continue afterwards.
    Failed(String),
    /// The last item: the shard has ended.
    End,
}

impl Item {
    /// Returns the item's cost in a window.
    pub(super) fn cost(&self) -> u64 {
        let bytes = match self {
            Item::Data(bytes) => bytes.len(),
            Item::Failed(text) => text.len(),
            Item::End => 0,
        };
        bytes as u64 + ITEM_OVERHEAD
    }
}

/// A message from a shard to its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromShard {
    /// Requests the reader's position: when a connection begins, when no answer has arrived, and periodically as a
    /// heartbeat.
    Hello {
        /// The epoch of the shard.
        epoch: u64,
        /// The number of the question, which makes it possible to recognize answers to older questions.
        question: u32,
        /// The first item that the reader has not confirmed; the shard still holds it.
        first: u64,
        /// The cost of all items before the first unconfirmed one.
        cost: u64,
    },
    /// Consecutive items.
    Items {
        /// The epoch of the shard.
        epoch: u64,
        /// The number of the first item.
        first: u64,
        /// The items.
        items: Vec<Item>,
    },
}

/// A message from the reader to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToShard {
    /// The reader's position, and the limit for the shard.
    Credit {
        /// The epoch of the position.
        epoch: u64,
        /// The last received question.
        question: u32,
        /// The next item that the reader expects.
        next: u64,
        /// The number of items that have been taken. They are confirmed and never sent again.
        taken: u64,
        /// The shard may only send items with numbers below this one.
        items: u64,
        /// The shard may only send an item if all items before it cost less than this amount.
        cost: u64,
    },
    /// The shard was restarted elsewhere: the receiver of this message must end.
    Replaced {
        /// The newer epoch.
        by: u64,
    },
    /// The reader accepts no more items.
    Closed,
}
