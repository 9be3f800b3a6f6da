//! Bounds of the bulk path, each with the reason for its number.

use std::time::Duration;

/// Bytes that are read ahead of a frame: several small frames, and no part of a large body that would be copied twice.
pub(crate) const READ_AHEAD_BYTES: usize = 16 << 10;

/// Bytes of a connection between processes of one machine that may be on their way in the system: what a request of
/// small items has, and most batches.
pub(crate) const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Parts of one write: what Linux takes at once (`IOV_MAX`).
pub(crate) const MAX_PARTS: usize = 1024;

/// Descriptors that may come with one read. Each frame that announces one has its own; further ones are closed.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

/// Largest memory that is shared in one piece: a batch of this size is a mistake.
pub(crate) const MAX_SHARED_BYTES: usize = 4 << 30;

/// Memory for reading ahead that is kept once a larger head was read.
pub(crate) const KEPT_AHEAD_BYTES: usize = 4 * READ_AHEAD_BYTES;

/// How long nothing may come of a frame that has begun.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A silent connection is asked whether it still lives after this time, …
pub(crate) const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);

/// … then again after each time of this length, …
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// … and given up after so many questions without an answer: 20 s, as with gRPC.
pub(crate) const KEEP_ALIVE_PROBES: u32 = 4;

/// Memory that is taken for a body on its announcement alone.
pub(crate) const TRUSTED_BYTES: usize = 2 << 20;

/// Enciphered bytes that are taken from the system at once.
pub(crate) const TLS_READ_BYTES: usize = 128 << 10;

/// Bytes that are enciphered and wait for the system to take them, beyond which a writer waits.
pub(crate) const TLS_SEND_BUFFER_BYTES: usize = 256 << 10;

/// How long a client waits for the verdict of a server that has asked for its certificate, and may be content in
/// silence.
pub(crate) const VERDICT_TIMEOUT: Duration = Duration::from_secs(1);
