//! The places of Relive's checkpoints: a folder on this machine, or any other storage of named files.
//!
//! Names are relative to the root, with `/` between their parts, regardless of the operating system's separator.

#[cfg(feature = "object-storage")]
pub(crate) mod bucket;
#[cfg(test)]
mod conformance;
pub(crate) mod disk;
mod local;
mod open;
pub(crate) mod own_lock;
mod seam;

#[cfg(feature = "object-storage")]
pub(crate) use bucket::BucketStorage;
pub(crate) use local::{LocalStorage, write_all};
pub(crate) use open::open;
pub use own_lock::close_locks_after_fork;
pub(crate) use seam::{Source, Storage, Upload, WriterLock};
