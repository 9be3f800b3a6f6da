//! Limits for streams between hosts, each with the reason for its value.

use std::time::Duration;

/// How long a writer waits for an answer before it requests the reader's position and resends from there: long enough
/// for several round trips on any network.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The time after which an idle writer sends a heartbeat, which also restores lost credit.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);

/// The silence after which a side considers the connection dead: enough for three heartbeats and some delay.
pub(super) const SILENCE: Duration = Duration::from_secs(8);

/// The cost of an item in addition to its bytes: roughly the space that it takes in the queues. It also bounds the
/// number of empty items.
pub(super) const ITEM_OVERHEAD: u64 = 64;

/// The total size of the items in one message: large enough to make the overhead of a message small, and small enough
/// for the reader to receive its first items soon.
pub(super) const MESSAGE_BYTES: u64 = 256 << 10;

/// The maximum size of an item. Larger items indicate a mistake, and the reader allocates the announced length.
pub(super) const MAX_ITEM_BYTES: usize = 1 << 30;

/// The maximum number of items in a message. It bounds the memory that the reader allocates for their lengths.
pub(super) const MAX_ITEMS: usize = 1 << 16;
