//! Bounds of rings, each with the reason for its number.

use std::time::Duration;

/// Members of a ring: with more of them, the time that a sum goes around is longer than that of most gradients.
pub(super) const MAX_RANKS: u32 = 1024;

/// Bytes of a message that members greet each other with: a job, a token and addresses.
pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Bytes of a text in a message.
pub(super) const MAX_TEXT_BYTES: usize = 4096;

/// How long a connection may take to greet. One that says nothing holds the meeting up for so long.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections to a meeting that is over, which are heard at the same time; others wait until one of these was
/// answered.
pub(super) const MAX_LATECOMERS: usize = 16;

/// Time from one look for a new connection to the next, and from one attempt to connect to the next.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long a call waits in the system before it looks whether all members live.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// How long a call waits before the log says for whom.
pub(super) const QUIET: Duration = Duration::from_secs(5);

/// A member is heard of so many times in the time of its allowed silence.
pub(super) const BEATS_IN_SILENCE: u32 = 8;

/// Bytes that are read at once: they are still in the processor's cache when they are added.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// Bytes of a connection that may be on their way in the system.
pub(super) const SOCKET_BUFFER_BYTES: usize = 4 << 20;
