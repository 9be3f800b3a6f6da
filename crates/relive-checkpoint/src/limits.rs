//! Bounds on what is read, each with the reason for its number.

use std::time::Duration;

/// Most bytes of a record: 2 GiB - 1, the limit of a protobuf message. Memory is taken as bytes come, not as a length
/// announces them.
pub(crate) const MAX_RECORD_BYTES: u64 = 0x7fff_ffff;

/// Most bytes of an item's record. Columns and slices of an item are limited, and 65,536 of each take less than 4 MiB.
pub(crate) const MAX_ITEM_RECORD_BYTES: u64 = 64 << 20;

/// Files of the disk tier that stay open, if the system lets the process have four times as many: connections and
/// checkpoints need some, too. Others are opened for each reading, which takes a few microseconds.
pub(crate) const MAX_OPEN_FILES: u64 = 4_096;

/// How long a folder may be locked by others before that is an error: a process that was killed has its locks until
/// the system has given back its memory, and whoever starts the next one does not wait for that.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Time between two looks whether a folder is still locked.
pub(crate) const LOCK_LOOK_EVERY: Duration = Duration::from_millis(20);
