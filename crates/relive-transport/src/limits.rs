//! Limits for the bulk path, each with its reason.

use std::time::Duration;

/// The number of bytes that are read ahead of a frame: enough for several small frames, but few enough that only a
/// small part of a large body is copied twice.
pub(crate) const READ_AHEAD_BYTES: usize = 16 << 10;

/// The size, in bytes, of the system's buffer for a connection between processes on one machine: enough for a request
/// of small items, and for most batches.
pub(crate) const SEND_BUFFER_BYTES: usize = 1 << 20;

/// The maximum number of parts in one write, which is Linux's limit (`IOV_MAX`).
pub(crate) const MAX_PARTS: usize = 1024;

/// The largest number of descriptors in one read. Each frame that announces a descriptor is accompanied by one; further
/// descriptors are closed.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

/// The largest piece of shared memory; a larger batch would be a mistake.
pub(crate) const MAX_SHARED_BYTES: usize = 4 << 30;

/// The amount of memory for reading ahead that is kept after a larger head has been read.
pub(crate) const KEPT_AHEAD_BYTES: usize = 4 * READ_AHEAD_BYTES;

/// How long a peer may stop sending in the middle of a frame.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The time without received data after which a connection is probed.
pub(crate) const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);

/// The interval between further probes.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The number of unanswered probes after which the connection is closed. In total, this takes 20 s, as with gRPC.
pub(crate) const KEEP_ALIVE_PROBES: u32 = 4;

/// The amount of memory that is allocated for an announced body before it arrives.
pub(crate) const TRUSTED_BYTES: usize = 2 << 20;

/// The number of encrypted bytes that are read from the system at once.
pub(crate) const TLS_READ_BYTES: usize = 128 << 10;

/// The largest number of encrypted bytes that have not been sent yet. Beyond this limit, a writer waits.
pub(crate) const TLS_SEND_BUFFER_BYTES: usize = 256 << 10;

/// How long a client waits for a refusal by a server that has requested the client's certificate. A server that accepts
/// the certificate may stay silent.
pub(crate) const HANDSHAKE_RESULT_TIMEOUT: Duration = Duration::from_secs(1);
