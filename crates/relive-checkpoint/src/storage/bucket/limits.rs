//! Limits for buckets, each with the reason for its value.

use std::time::Duration;

/// The size of the parts of an upload. All parts except the last have this size, because some services require equal
/// sizes. S3 accepts 10,000 parts of at least 5 MiB each; with parts of this size, a file can be as large as 80 GB.
pub(super) const PART_BYTES: usize = 8 << 20;

/// The maximum number of parts of an upload, which is S3's limit.
pub(super) const MAX_PARTS: usize = 10_000;

/// The number of parts of an upload, or ranges of a read, in flight for one file. Several are needed because a single
/// connection to S3 transfers only 50 to 90 MB/s. Together with the part that is being filled, an upload takes 40 MiB
/// of memory.
pub(super) const IN_FLIGHT: usize = 4;

/// The number of bytes per request of a large read.
pub(super) const RANGE_BYTES: u64 = 8 << 20;

/// The minimum size of a smaller read, in bytes. Subsequent reads of the same part are then served from memory, because
/// even a small request takes about 30 ms. Each read that continues where the previous one ended transfers twice as
/// many bytes, up to [`RANGE_BYTES`], so that a file read from start to end needs few requests.
pub(super) const LEAST_READ_BYTES: u64 = 128 << 10;

/// The timeout for one attempt at a request, including its body. At 1 Mbit/s, a body of 8 MiB takes 64 s.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// The timeout for connecting to the service.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of retries after responses with status 5xx or 429, and after broken connections.
pub(super) const MAX_RETRIES: usize = 8;

/// The first pause before a retry. Each pause is up to twice as long as the previous one, with jitter.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between retries.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The time after the first attempt within which a retry may still start.
pub(super) const RETRY_FOR: Duration = Duration::from_secs(60);

/// How long a caller that aborts an upload waits for its parts to be removed: long enough for a healthy service.
pub(super) const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of bytes that are read from a lock object. Relive's lock objects have fewer than 400 bytes.
pub(super) const MAX_NOTE_BYTES: u64 = 4096;

/// The interval at which the owner of a lock rewrites it. The resulting 8,640 requests a day cost a few cents.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(10);

/// The time after which a lock that has not been rewritten is considered to have lost its owner. The owner can miss
/// three renewals. A server that is restarted after it was killed waits this long.
pub(super) const EXPIRES_AFTER: Duration = Duration::from_secs(45);

/// The age after which a lock is considered to have no owner and is taken without waiting. The age is the time from the
/// service's clock at the last write to the local clock. Services refuse signed requests from machines whose clocks are
/// off by 15 minutes, so a lock of this age has not been renewed for several minutes, and has expired. Requests with
/// tokens are not refused, so the documentation requires that the clocks of machines that send them are right.
pub(super) const ABANDONED_AFTER: Duration = Duration::from_secs(20 * 60);
