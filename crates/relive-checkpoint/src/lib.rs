//! Checkpoints: snapshots of tables on disk and in buckets. Only this crate reads and writes data files.
//!
//! [`Store`] manages a server's checkpoints in Relive's format (`docs/checkpoint-format.md`), in which successive
//! checkpoints share data; [`Catalog`] inspects them. [`Root`] also reads and writes dm-reverb's format: Relive and
//! dm-reverb can load each other's checkpoints.
//!
//! In both formats, a checkpoint appears atomically: it is written under another name, made durable, and then renamed.
//! Until then, and after any failure, the previous checkpoint is the newest one and remains valid.
//!
//! Readers do not trust their input. Every part has a checksum, and declared sizes are checked against the actual ones.
//! Damaged data is refused with an error that names the file and the place, or its intact parts are salvaged.

mod any_format;
mod catalog;
mod error;
mod fast_map;
mod format;
mod layout;
mod limits;
mod loaded;
mod loss;
mod loss_summary;
mod losses;
mod manifest;
mod names;
mod native;
mod record;
mod reverb;
mod segment;
#[cfg(test)]
mod simulated_disk;
mod storage;
mod tier;

pub use any_format::{Compared, Location, Older, Root, Target, inspect, list, load, locate, prune, verify};
pub use catalog::{
    Catalog, CheckpointInfo, CheckpointSummary, Inspection, Pruned, Report, TableInspection, TableSummary,
};
pub use error::{Error, ErrorKind};
pub use format::Format;
pub use loaded::{LoadOptions, Loaded};
pub use loss::Loss;
pub use loss_summary::summary_of_losses;
pub use native::Store;
pub use storage::close_locks_after_fork;
pub use tier::Tier;
