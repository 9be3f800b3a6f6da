//! Measures rates.

use std::time::Duration;

/// Returns the bytes per second.
pub(crate) fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64()
}
