//! dm-reverb's checkpoints, in the form that versions 0.14 and later write and all versions can read.
//!
//! ```text
//! <root>/2026-11-20T11:16:35.669974815+00:00/
//!     tables.tfrecord  items.tfrecord  chunks.tfrecord  DONE
//! ```
//!
//! | File | Records (protobuf, package `deepmind.reverb`) | Order |
//! |---|---|---|
//! | `tables.tfrecord` | a `PriorityTableCheckpoint` for each table: rules and counters | any |
//! | `items.tfrecord` | a `PrioritizedItem` for each item of each table | insertion order within a table |
//! | `chunks.tfrecord` | each `ChunkData` to which items refer, once | any |
//! | `DONE` | none; the file is empty, but without it, the folder is not a checkpoint | |
//!
//! Each file of records is one zlib stream; Relive does not compress chunks a second time. The folder's name is the
//! time at which writing started, in RFC 3339 format. The newest checkpoint is the one with the latest time. dm-reverb
//! compares the names as text. Relive's names, like dm-reverb's, are in local time with its offset from UTC, always
//! with nine digits. After a change of the time zone, or of daylight saving time, the order of the names can therefore
//! differ from the order of the times.
//!
//! Deliberate differences from dm-reverb: folders that are not checkpoints are never touched; a damaged or incomplete
//! checkpoint is an error, not an empty server; times with any offset are compared as times.
//!
//! Older forms can also be read: uncompressed files, items in the records of their tables, items that name a range of
//! rows, and chunks that hold their tensors directly.

mod draft;
mod files;
mod folders;
mod inspect;
mod list;
mod load;
mod name;
mod save;
mod shared_chunks;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use folders::{is_checkpoint, is_whole};
pub(crate) use store::Store;
