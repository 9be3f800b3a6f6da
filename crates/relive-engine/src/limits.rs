//! Bounds of waiting and queueing, each with the reason for its number.

use std::time::Duration;

/// Inserts that may wait in one table, over all streams. A stream stops being read long before (see
/// [`read_ahead`]); this bounds what streams that ended can leave behind.
pub const MAX_WAITING_INSERTS: usize = 1 << 20;

/// Sample requests that may wait in one table. Each costs about 200 bytes, so the queue stays under 20 MB.
pub const MAX_WAITING_SAMPLES: usize = 100_000;

/// Samples that one request may take under one lock.
pub const MAX_SAMPLES_PER_REQUEST: usize = 1 << 20;

/// Bytes of samples that are copied while their table is locked: some tens of microseconds' work.
pub const MAX_COPIED_BYTES: usize = 256 << 10;

/// Waiters that a description of a table lists; further ones are counted.
pub const MAX_LISTED_WAITERS: usize = 100;

/// Items on one page of a listing. Their messages take some 60 bytes each.
pub const MAX_LISTED_ITEMS: usize = 100_000;

/// Places of items that a listing looks at under one lock: it takes some tens of microseconds.
pub const SLOTS_PER_LOCK: usize = 1_024;

/// Items that are looked up by their keys under one lock, for the same reason.
pub const KEYS_PER_LOCK: usize = 256;

/// Items that leave a table under one lock after its bounds were lowered: well under a millisecond.
pub const EVICTIONS_PER_LOCK: usize = 1_024;

/// Changes of tables that an engine remembers: some days of an operator's work, 20 KB.
pub const MAX_LISTED_CHANGES: usize = 100;

/// Places of items that [`peek`](crate::TableHandle::peek) looks at under one lock.
pub const SLOTS_PER_PEEK_STEP: usize = 64;

/// Time for which the lock of a table goes to the first to come, before it goes to whoever has waited longest: much
/// more than a batch of samples takes, much less than anybody notices.
pub const UNFAIR_FOR_NANOS: u64 = 500_000;

/// Time for which a capture of tables goes on before it lets others have its processor: below what systems give a
/// thread at a time, so that it is not stopped while it holds a lock.
pub const CAPTURE_BEFORE_YIELD: Duration = Duration::from_millis(1);

/// Shortest time between checkpoints by the clock: a shorter one is a slip, and would keep a disk busy with nothing
/// else.
pub const MIN_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// Columns of a structure that writers give their items: as many as any agent's steps have, few enough that the
/// structure costs a server next to nothing.
pub const MAX_NAMED_COLUMNS: usize = 4_096;

/// Depth of such a structure: what the protocol takes of a signature.
pub const MAX_NAMED_DEPTH: usize = 32;

/// Containers and columns of such a structure, empty containers among them.
pub const MAX_NAMED_PLACES: usize = 16_384;

/// Bytes of all names in such a structure.
pub const MAX_NAME_BYTES: usize = 64 << 10;

/// Time after which an insert that an extension asked for is given up, if the other table's limiter still forbids it.
pub const EXTENSION_INSERT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a writer waits for memory before it is told that there is none, unless the builder says otherwise: long
/// enough for a reader to catch up, short enough to be noticed.
pub const MEMORY_WAIT: Duration = Duration::from_secs(60);

/// Time between two looks of one who waits for memory. Tables tell when they free chunks; this is for chunks that are
/// freed elsewhere.
pub const MEMORY_RECHECK: Duration = Duration::from_millis(3);

/// What each waiter adds to that time, so that all of them together look 10,000 times a second at most.
pub const MEMORY_RECHECK_PER_WAITER: Duration = Duration::from_micros(100);

/// Tables of one engine: far above any use, low enough that looking through all of them stays cheap.
pub const MAX_TABLES: usize = 10_000;

/// Waiting inserts at which a stream that feeds a table of `max_size` items is no longer read: a tenth of the table,
/// at least 1 and at most 1,000, as in dm-reverb.
#[must_use]
pub fn read_ahead(max_size: u64) -> usize {
    usize::try_from((max_size / 10).clamp(1, 1_000)).unwrap_or(1_000)
}
