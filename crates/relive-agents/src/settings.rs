//! Checks of settings.

use std::fmt::Display;

use relive_rl::{Result, RlError};

/// Whether a setting is in its range.
pub(crate) fn check(
    name: &'static str,
    got: impl Display,
    is_valid: bool,
    expected: &'static str,
) -> Result<()> {
    if is_valid { Ok(()) } else { Err(RlError::Setting { name, got: got.to_string(), expected }) }
}

/// Whether a setting is a positive number.
pub(crate) fn positive(name: &'static str, value: f32) -> Result<()> {
    check(name, value, value > 0.0 && value.is_finite(), "above 0")
}

/// Whether a setting is zero or a positive number.
pub(crate) fn not_negative(name: &'static str, value: f32) -> Result<()> {
    check(name, value, value >= 0.0 && value.is_finite(), "at least 0")
}

/// Whether a setting is from 0 to 1.
pub(crate) fn share(name: &'static str, value: f32) -> Result<()> {
    check(name, value, (0.0..=1.0).contains(&value), "from 0 to 1")
}

/// Whether a setting is at least 1.
pub(crate) fn whole(name: &'static str, value: usize) -> Result<()> {
    check(name, value, value >= 1, "at least 1")
}
