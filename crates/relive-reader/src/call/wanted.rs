//! What a call is to bring.

use std::time::Duration;

/// What a call is to bring.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) table: String,
    pub(super) samples: usize,
    pub(super) timeout: Option<Duration>,
}
