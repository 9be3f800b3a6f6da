//! What goes wrong with a stream.

use std::time::Duration;

/// Why a stream does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// There is no such address, or it cannot be listened on.
    #[error("{address}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// The reader does not take this writer.
    #[error("the reader at {address} refuses shard {shard}: {reason}")]
    Refused {
        /// The reader's address.
        address: String,
        /// The shard.
        shard: u32,
        /// What it says.
        reason: String,
    },
    /// The shard has begun anew elsewhere.
    #[error(
        "shard {shard} has begun anew elsewhere, for the time {by}: this one, begun for the time {epoch}, is to end"
    )]
    Replaced {
        /// The shard.
        shard: u32,
        /// How often it had begun when this one did.
        epoch: u64,
        /// How often it has now.
        by: u64,
    },
    /// The reader wants no more.
    #[error("the reader of shard {shard} wants no more")]
    Closed {
        /// The shard.
        shard: u32,
    },
    /// The reader is gone.
    #[error(
        "nothing was heard of the reader at {address} for {silence:.0?}, and at last: {reason}; shard {shard} ends"
    )]
    Lost {
        /// The reader's address.
        address: String,
        /// The shard.
        shard: u32,
        /// For how long.
        silence: Duration,
        /// What the last try to reach it said.
        reason: String,
    },
    /// An item that is too large.
    #[error("an item of shard {shard} has {bytes} bytes, but it may have {most}")]
    TooLarge {
        /// The shard.
        shard: u32,
        /// Its size.
        bytes: usize,
        /// The largest.
        most: usize,
    },
    /// The shard could not make an item.
    #[error("{0}")]
    Failed(String),
    /// There is a reader of the shard.
    #[error("shard {shard} has a reader already")]
    Taken {
        /// The shard.
        shard: u32,
    },
}
