//! Where shards run, and what happens when one of them fails.

use std::sync::Arc;

/// Where shards run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// In the thread that pulls, one after the other. The same plan with the same seeds gives the same items,
    /// whatever the machine does.
    #[default]
    Serial,
    /// Each shard in a thread of its own, from the first pull until the flow is dropped, which waits for what the
    /// shard is doing.
    Threads,
}

/// What happens when the stream of a shard gives an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The error is given on. The shard goes on with its next item.
    #[default]
    GiveOn,
    /// The shard ends; the others go on. The error is given on if it was the last.
    DropShard,
    /// The shard is made anew, with a new state, so many times; then the error is given on, and the shard ends.
    Restart {
        /// How many times, over its whole life.
        times: u32,
    },
}

/// A function that calls the one that it gets, once, and holds something meanwhile.
pub type Around = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;
