//! Limits for rings, each with the reason for its value.

use std::time::Duration;

/// The maximum number of members. With more members, passing a sum through the ring would take longer than computing
/// most gradients.
pub(super) const MAX_RANKS: u32 = 1024;

/// The maximum size of a greeting, which contains a job, a token and addresses.
pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The maximum size of a text in a message.
pub(super) const MAX_TEXT_BYTES: usize = 4096;

/// The timeout for a greeting, after which a silent connection makes room for another one.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// The timeout for one attempt to connect to one address; attempts are repeated until the meeting's deadline. It allows
/// the system to send a lost first packet again, after one second.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum number of connections to a listener that have not sent their greeting; further connections wait. Enough
/// for those of a port scan, but few among the 1,024 files that a process may usually open.
pub(super) const MAX_ARRIVALS: usize = 64;

/// The time between two checks for a new connection, and between two attempts to connect.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long a call blocks in the system before it checks whether all members are alive.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// How long a call waits before it logs the members for which it is waiting.
pub(super) const QUIET: Duration = Duration::from_secs(5);

/// The number of heartbeats that a member sends within the allowed silence.
pub(super) const HEARTBEATS_PER_SILENCE: u32 = 8;

/// The minimum silence: heartbeats are at least a millisecond apart.
pub(super) const MIN_SILENCE: Duration = Duration::from_millis(HEARTBEATS_PER_SILENCE as u64);

/// The maximum of each timeout, so that no deadline overflows.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// The maximum size of a read, chosen so that the bytes are still in the processor's cache when they are added.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// The size of a connection's buffers in the operating system.
pub(super) const SOCKET_BUFFER_BYTES: usize = 4 << 20;
