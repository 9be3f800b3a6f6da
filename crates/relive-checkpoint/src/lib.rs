//! Checkpoints: snapshots of tables on disk.
//!
//! [`reverb`] is dm-reverb's format, so that either server loads what the other has written. Only this crate knows files.
//!
//! A checkpoint appears whole or not at all: it is written into a hidden folder beside the others, made durable, and then
//! renamed. Until that moment, and whatever fails, the checkpoint before it is the newest and valid.
//!
//! Reading trusts nothing. Every record has two checksums, every compressed file a third one, and the number of items must
//! be what the tables have counted. What is not whole is refused, with the file, the record and the place in it.

mod catalog;
mod disk;
mod error;
mod layout;
mod limits;
mod loaded;
mod loss;
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
    Catalog, CheckpointInfo, CheckpointSummary, Format, Inspection, Pruned, Report, TableInspection,
    TableSummary, detect,
};
pub use error::{Error, ErrorKind};
pub use loaded::{LoadOptions, Loaded};
pub use loss::Loss;
pub use native::Store;
pub use tier::Tier;
