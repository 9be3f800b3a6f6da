//! Numbers of bytes, and of seconds, at top level and of tables.

use std::time::Duration;

use serde::Deserialize;

use super::place::{Misfit, Place};
use crate::units::{parse_bytes, parse_seconds};

/// `2_000_000_000`, or `"2GB"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "write a whole number of bytes, or one with a unit, as in \"2GB\" or \"1.5GiB\""
)]
pub(crate) enum BytesEntry {
    Number(i64),
    Text(String),
}

impl BytesEntry {
    /// The number meant, which stands at `place`.
    pub(super) fn bytes(&self, place: &Place) -> Result<u64, Misfit> {
        self.parse().map_err(|reason| place.misfit(reason))
    }

    /// The number meant, or why it is none.
    pub(crate) fn parse(&self) -> Result<u64, String> {
        match self {
            Self::Number(number) => parse_bytes(&number.to_string()),
            Self::Text(text) => parse_bytes(text),
        }
    }
}

/// A number of seconds, which stands at `place`.
pub(super) fn seconds(seconds: f64, place: &Place) -> Result<Duration, Misfit> {
    parse_seconds(&seconds.to_string()).map_err(|reason| place.misfit(reason))
}
