//! Where shards run, and how the failure of a shard is handled.

use std::sync::Arc;

/// Where shards run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// Runs all shards in the pulling thread, one after the other. The same plan with the same seeds gives
    /// the same items on any machine.
    #[default]
    Serial,
    /// Runs each shard in its own thread, from the first pull until the flow is dropped. Dropping waits until the shard
    /// has finished its current work.
    Threads,
}

/// How an error in the stream of a shard is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Passes the error to the puller. The shard continues with its next item.
    #[default]
    ContinueShard,
    /// Ends the shard; the other shards continue. The error of the last shard is passed on.
    DropShard,
    /// Restarts the shard with a new state, a limited number of times. After that, the error is passed on,
    /// and the shard ends.
    Restart {
        /// The maximum number of restarts of the shard.
        times: u32,
    },
}

/// A function that calls its argument, which makes one item, until the argument returns false. Meanwhile, it may hold
/// resources, such as a lock.
pub type Around = Arc<dyn Fn(&mut dyn FnMut() -> bool) + Send + Sync>;
