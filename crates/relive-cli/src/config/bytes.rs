//! Numbers of bytes and seconds, at top level and in tables.

use std::time::Duration;

use super::place::{Misfit, Place};
use crate::units::{BytesEntry, parse_seconds};

/// The number of bytes at `place`.
pub(super) fn bytes(entry: &BytesEntry, place: &Place) -> Result<u64, Misfit> {
    entry.parse().map_err(|reason| place.misfit(reason))
}

/// A number of seconds at `place`.
pub(super) fn seconds(seconds: f64, place: &Place) -> Result<Duration, Misfit> {
    parse_seconds(&seconds.to_string()).map_err(|reason| place.misfit(reason))
}
