//! Validated settings.

use crate::error::{EnvError, Mismatch};
use crate::limits::MAX_BSUITE_SIZE;

/// Returns a size, after checking that it is at least `least` and within the limit.
pub(super) fn checked(name: &str, size: u32, least: u32) -> Result<u32, EnvError> {
    if (least..=MAX_BSUITE_SIZE).contains(&size) {
        Ok(size)
    } else {
        Err(EnvError::Setting(Mismatch::boxed(name, format_args!("{least}..={MAX_BSUITE_SIZE}"), size)))
    }
}
