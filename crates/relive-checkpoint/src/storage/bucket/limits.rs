//! Bounds of the work with buckets, each with the reason for its number.

use std::time::Duration;

/// Bytes of a part of an upload. All parts but the last have this size, which some services ask for. S3 takes 10,000
/// parts of at least 5 MiB, so that a file may have 80 GB.
pub(super) const PART_BYTES: usize = 8 << 20;

/// Most parts of an upload: S3's limit.
pub(super) const MAX_PARTS: usize = 10_000;

/// Parts, or ranges of a read, under way at a time for one file: a single connection to S3 brings 50 to 90 MB/s.
/// Together with the part that is being filled, an upload takes 40 MiB of memory.
pub(super) const IN_FLIGHT: usize = 4;

/// Bytes of one request of a large read.
pub(super) const RANGE_BYTES: u64 = 8 << 20;

/// A smaller read brings this many bytes at least, and those that follow in the file are served from memory: a
/// request takes some 30 ms however little it brings. Each that goes on where the one before ended brings twice as
/// many, up to [`RANGE_BYTES`], so that a file which is read from its begin to its end comes in a few requests.
pub(super) const LEAST_READ_BYTES: u64 = 128 << 10;

/// Time for one try of a request with all of its body: 8 MiB at 1 Mbit/s take 64 s.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Time to reach the service.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Tries after the first one, on 5xx, 429, and connections that break.
pub(super) const MAX_RETRIES: usize = 8;

/// The first pause before another try; each is up to twice as long as the one before, with some chance in it.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between tries.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// No new try is begun this long after the first one.
pub(super) const RETRY_FOR: Duration = Duration::from_secs(60);

/// How long somebody who gives up waits for the remains to be removed: long enough for a healthy service.
pub(super) const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of a lock object that are read. Ours have less than 400.
pub(super) const MAX_NOTE_BYTES: u64 = 4096;

/// How often the owner of a lock writes it anew: 8,640 requests a day, some cents.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(10);

/// A lock that was not written for this long has lost its owner. It outlasts three failed renewals; a server that was
/// killed and starts again waits for it.
pub(super) const EXPIRES_AFTER: Duration = Duration::from_secs(45);

/// A lock that is older than this by the service's clock and ours is nobody's, without waiting. Services refuse
/// requests from machines whose clocks are wrong by 15 minutes.
pub(super) const ABANDONED_AFTER: Duration = Duration::from_secs(20 * 60);
