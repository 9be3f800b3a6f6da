//! Object storage: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`.
//!
//! A bucket has no folders, no renames and no locks. A file is one object, which appears when its upload is completed;
//! the lock is an object that its owner rewrites regularly (`lease`). Requests run on their own thread (`driver`), so
//! that parts are sent while the next ones are being produced.

mod driver;
mod errors;
#[cfg(test)]
pub(crate) mod faults;
mod handle;
mod http;
mod lease;
mod limits;
mod location;
mod note;
#[cfg(test)]
pub(crate) mod real;
mod source;
mod storage;
#[cfg(test)]
mod tests;
pub(crate) mod tuning;
mod upload;

pub(crate) use storage::BucketStorage;
