//! Bounds on waiting and queueing, each with the reason for its value.

use std::time::Duration;

/// The number of inserts that may wait in one table, over all streams. The server stops reading a stream long before
/// this limit is reached (see [`read_ahead`]). The limit bounds the inserts that streams can leave behind when they
/// end.
pub const MAX_WAITING_INSERTS: usize = 1 << 20;

/// The number of sample requests that may wait in one table. Each takes about 200 bytes, so the queue stays under 20
/// MB.
pub const MAX_WAITING_SAMPLES: usize = 100_000;

/// The number of samples that one request may take under one lock.
pub const MAX_SAMPLES_PER_REQUEST: usize = 1 << 20;

/// The number of bytes of samples that are copied under the lock of their table: well under 100 µs of work. Larger batches
/// are gathered without the lock, the largest by several threads.
pub const MAX_COPIED_BYTES: usize = 512 << 10;

/// The number of waiters that the description of a table lists; further ones are only counted.
pub const MAX_LISTED_WAITERS: usize = 100;

/// The number of items on one page of a listing. Their messages take about 60 bytes each.
pub const MAX_LISTED_ITEMS: usize = 100_000;

/// The number of slots that a listing scans under one lock: a few tens of microseconds of work.
pub const SLOTS_PER_LOCK: usize = 1_024;

/// The number of keys that are looked up under one lock. It is bounded for the same reason.
pub const KEYS_PER_LOCK: usize = 256;

/// The number of excess items that are evicted under one lock when a table's bounds have been lowered: well under a
/// millisecond of work.
pub const EVICTIONS_PER_LOCK: usize = 1_024;

/// The number of changes to tables that an engine remembers: a few days of an operator's work, in 20 KB.
pub const MAX_LISTED_CHANGES: usize = 100;

/// The number of slots that [`peek`](crate::TableHandle::peek) scans under one lock.
pub const SLOTS_PER_PEEK_STEP: usize = 64;

/// How long any thread may take a table's lock before it is passed to the thread that has waited longest: much longer
/// than a batch of samples takes, but too short to be noticed.
pub const UNFAIR_FOR_NANOS: u64 = 500_000;

/// How long a capture of tables runs before it yields the processor. It is shorter than the time slice of common
/// systems, so that the capture is not preempted while it holds a lock.
pub const CAPTURE_BEFORE_YIELD: Duration = Duration::from_millis(1);

/// The shortest interval of scheduled checkpoints. A shorter one is probably a mistake and would keep the disk
/// permanently busy.
pub const MIN_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// The number of columns in a structure that writers propose for their items: enough for any agent's steps, and few
/// enough that the cost for a server is negligible.
pub const MAX_NAMED_COLUMNS: usize = 4_096;

/// The depth of such a structure: the protocol's limit for signatures.
pub const MAX_NAMED_DEPTH: usize = 32;

/// The number of containers and columns in such a structure, including empty containers.
pub const MAX_NAMED_PLACES: usize = 16_384;

/// The total length of all names in such a structure, in bytes.
pub const MAX_NAME_BYTES: usize = 64 << 10;

/// How long the limiter of the target table may block an insert requested by an extension before the insert is
/// abandoned.
pub const EXTENSION_INSERT_TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two log messages about the same frequent event, such as refused connections.
pub const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How long a writer waits for memory before it fails, unless the builder sets another time: long enough for a reader
/// to catch up, but short enough that a problem is noticed.
pub const MEMORY_WAIT: Duration = Duration::from_secs(60);

/// The time between two checks by a caller that is waiting for memory. Tables wake it when they free chunks; the checks
/// detect chunks that are freed elsewhere.
pub const MEMORY_RECHECK: Duration = Duration::from_millis(3);

/// The time by which each waiter extends that interval, so that all waiters together check at most 10,000 times a
/// second.
pub const MEMORY_RECHECK_PER_WAITER: Duration = Duration::from_micros(100);

/// The number of tables that an engine may have: far above any practical number, but low enough that a scan of all
/// tables stays cheap.
pub const MAX_TABLES: usize = 10_000;

/// Returns the number of waiting inserts at which the server stops reading a stream that feeds a table of `max_size`
/// items: a tenth of the table, at least 1 and at most 1,000, as in dm-reverb.
#[must_use]
pub fn read_ahead(max_size: u64) -> usize {
    usize::try_from((max_size / 10).clamp(1, 1_000)).unwrap_or(1_000)
}
