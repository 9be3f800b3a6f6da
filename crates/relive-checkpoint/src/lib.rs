//! Checkpoints: snapshots of tables on disk and in buckets. Only this crate knows files of data.
//!
//! [`Store`] is a server's place for checkpoints in our own format (`docs/checkpoint-format.md`), in which successive
//! ones share what they have in common; [`Catalog`] looks at them. [`reverb`] is dm-reverb's format, so that either
//! server loads what the other has written.
//!
//! In both, a checkpoint appears whole or not at all: it is written under another name, made durable, and then renamed.
//! Until that moment, and whatever fails, the checkpoint before it is the newest and valid.
//!
//! Reading trusts nothing. Every part has a checksum, and what is announced is held against what is there. What is not
//! whole is refused, with the file and the place in it, or salvaged as far as it is whole.

mod catalog;
mod either;
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
pub mod reverb;
mod segment;
#[cfg(test)]
mod simulated_disk;
mod storage;
mod tier;

pub use catalog::{
    Catalog, CheckpointInfo, CheckpointSummary, Inspection, Pruned, Report, TableInspection, TableSummary,
};
pub use either::{Compared, Location, Older, Root, Target, inspect, list, load, locate, prune, verify};
pub use error::{Error, ErrorKind};
pub use format::Format;
pub use loaded::{LoadOptions, Loaded};
pub use loss::Loss;
pub use loss_summary::summary_of_losses;
pub use native::Store;
pub use storage::close_locks_after_fork;
pub use tier::Tier;
