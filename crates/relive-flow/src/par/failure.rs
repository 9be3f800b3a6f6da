//! What becomes of a shard that fails.

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
