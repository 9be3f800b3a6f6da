//! Bounds of streams between hosts, each with the reason for its number.

use std::time::Duration;

/// How long a writer waits for an answer before it asks where the reader stands and sends again from there: several
/// round trips of any network.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A writer with nothing to send says so after this time, which also brings it credit that got lost.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);

/// A side that has heard nothing for this long takes the connection for dead: three heartbeats, and one that is late.
pub(super) const SILENCE: Duration = Duration::from_secs(8);

/// What an item counts for beside its bytes, so that empty ones are bounded, too: about what its place in the queues
/// takes.
pub(super) const ITEM_OVERHEAD: u64 = 64;

/// Bytes of items that go out in one message: enough that a message's own cost is small, and few enough that a reader
/// has its first items soon.
pub(super) const MESSAGE_BYTES: u64 = 256 << 10;

/// The largest item: larger ones are a mistake, and an announced length is allocated by its reader.
pub(super) const MAX_ITEM_BYTES: usize = 1 << 30;

/// Items in one message, which bounds what the reader allocates for their lengths.
pub(super) const MAX_ITEMS: usize = 1 << 16;
