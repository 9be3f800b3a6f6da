//! The errors of a stream.

use std::time::Duration;

/// The reason why a stream cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The address does not exist, or it is not possible to listen on it.
    #[error("{address}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// The system's error.
        reason: String,
    },
    /// The reader rejects this writer.
    #[error("the reader at {address} refused shard {shard}: {reason}")]
    Refused {
        /// The reader's address.
        address: String,
        /// The shard.
        shard: u32,
        /// The reader's reason.
        reason: String,
    },
    /// The shard was restarted elsewhere.
    #[error("shard {shard} was restarted elsewhere with epoch {by}; this one, with epoch {epoch}, must end")]
    Replaced {
        /// The shard.
        shard: u32,
        /// The epoch of this writer.
        epoch: u64,
        /// The newer epoch.
        by: u64,
    },
    /// The reader accepts no more items.
    #[error("the reader of shard {shard} wants no more items")]
    Closed {
        /// The shard.
        shard: u32,
    },
    /// The reader is unreachable.
    #[error(
        "the reader at {address} has been silent for {silence:.0?} (last error: {reason}); shard {shard} ends"
    )]
    Lost {
        /// The reader's address.
        address: String,
        /// The shard.
        shard: u32,
        /// How long the reader was silent.
        silence: Duration,
        /// The error of the last attempt to reach it.
        reason: String,
    },
    /// An item is too large.
    #[error("an item of shard {shard} has {bytes} bytes; the limit is {most}")]
    TooLarge {
        /// The shard.
        shard: u32,
        /// The size of the item in bytes.
        bytes: usize,
        /// The maximum size.
        most: usize,
    },
    /// The shard could not produce an item.
    #[error("{0}")]
    Failed(String),
    /// The shard already has a reader.
    #[error("shard {shard} already has a reader")]
    Taken {
        /// The shard.
        shard: u32,
    },
}
