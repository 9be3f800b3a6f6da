//! Limits on input, each with the reason for its value.

use std::time::Duration;

/// The limit on the size of a record: 2 GiB - 1 bytes, protobuf's limit for a message. Memory is allocated as bytes
/// arrive, not when a length declares them.
pub(crate) const MAX_RECORD_BYTES: u64 = 0x7fff_ffff;

/// The limit on the size of an item's record, in bytes. The numbers of columns and slices of an item are limited, and
/// 65,536 of each take less than 4 MiB.
pub(crate) const MAX_ITEM_RECORD_BYTES: u64 = 64 << 20;

/// The limit on the number of files that the disk tier keeps open, provided that the system allows the process to open
/// four times as many, because connections and checkpoints also need open files. Other files are opened for each read,
/// which takes a few microseconds.
pub(crate) const MAX_OPEN_FILES: u64 = 4_096;

/// How long to wait for another process's lock on a folder. A killed process keeps its locks until the system has freed
/// its memory, and a supervisor may start the next process before that.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The interval at which a locked folder is checked again.
pub(crate) const LOCK_LOOK_EVERY: Duration = Duration::from_millis(20);
