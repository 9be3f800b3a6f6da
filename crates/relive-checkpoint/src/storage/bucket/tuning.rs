//! Numbers that tests reduce.

use std::time::Duration;

use super::limits::{EXPIRES_AFTER, PART_BYTES, RENEW_EVERY};

/// The duration of a lock, and the size of the parts of an upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    pub(crate) renew_every: Duration,
    pub(crate) expires_after: Duration,
    pub(crate) part_bytes: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { renew_every: RENEW_EVERY, expires_after: EXPIRES_AFTER, part_bytes: PART_BYTES }
    }
}
