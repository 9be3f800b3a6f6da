//! Where our own checkpoints lie: a folder of this machine, or anything else that keeps files under names.
//!
//! Names are relative to the root, with `/` between their parts, whatever the machine's own separator is.

#[cfg(feature = "object-storage")]
pub(crate) mod bucket;
#[cfg(test)]
mod conformance;
mod local;
mod open;
mod seam;

#[cfg(feature = "object-storage")]
pub(crate) use bucket::BucketStorage;
pub(crate) use local::{LocalStorage, write_all};
pub(crate) use open::open;
pub(crate) use seam::{Entry, Source, Storage, Upload};
