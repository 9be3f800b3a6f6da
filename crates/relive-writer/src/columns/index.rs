//! Converts indices given by callers to positions in the history.
//!
//! Indices count from the first step since the history was cleared; negative ones count from the end. Indices are not
//! clamped: an index outside the history causes an error that states the history's length.

use std::ops::{Bound, Range, RangeBounds};

/// The reason why items cannot refer to certain steps of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IndexError {
    #[error(
        "step {index} is outside of the history, which has {len} steps; a new history starts at the end of an episode"
    )]
    OutOfRange { index: i64, len: u64 },
    #[error("the range {start}..{stop} selects none of the {len} steps; an item's column needs at least one")]
    Empty { start: i64, stop: i64, len: u64 },
    #[error("a stride must be at least 1")]
    Stride,
    #[error(
        "step {step} is no longer available (the oldest available one is {oldest}); raise num_keep_alive_refs, or create the item earlier"
    )]
    Expired { step: u64, oldest: u64 },
    #[error("nothing was appended to this column at step {step}")]
    Missing { step: u64 },
}

/// Returns the position of step `index`.
pub(crate) fn resolve(index: i64, len: u64) -> Result<u64, IndexError> {
    from_end(index, len).filter(|&at| at < len).ok_or(IndexError::OutOfRange { index, len })
}

/// Returns the positions in `range`, which must be within the history and must not be empty.
pub(crate) fn resolve_range(range: &impl RangeBounds<i64>, len: u64) -> Result<Range<u64>, IndexError> {
    let start = match range.start_bound() {
        Bound::Included(&at) => at,
        Bound::Excluded(&at) => at.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let start_at = from_end(start, len).ok_or(IndexError::OutOfRange { index: start, len })?;
    let (stop, stop_at) = match range.end_bound() {
        Bound::Unbounded => (i64::try_from(len).unwrap_or(i64::MAX), Some(len)),
        Bound::Excluded(&at) => (at, from_end(at, len)),
        Bound::Included(&-1) => (-1, Some(len)),
        Bound::Included(&at) => (at, from_end(at.saturating_add(1), len)),
    };
    let stop_at = stop_at.ok_or(IndexError::OutOfRange { index: stop, len })?;
    if start_at < stop_at { Ok(start_at..stop_at) } else { Err(IndexError::Empty { start, stop, len }) }
}

/// Returns `index` as a position in `0..=len`.
fn from_end(index: i64, len: u64) -> Option<u64> {
    let at = if index < 0 { len.checked_sub(index.unsigned_abs())? } else { index.unsigned_abs() };
    (at <= len).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_resolved_or_refused() {
        assert_eq!(resolve_range(&(0..5), 5), Ok(0..5));
        assert_eq!(resolve_range(&(-3..), 5), Ok(2..5));
        assert_eq!(resolve_range(&(-3..-1), 5), Ok(2..4));
        assert_eq!(resolve_range(&(..), 5), Ok(0..5));
        assert_eq!(resolve_range(&(-3..=-1), 5), Ok(2..5));
        assert_eq!(resolve_range(&(1..=3), 5), Ok(1..4));
        assert_eq!(resolve_range(&(-6..), 5), Err(IndexError::OutOfRange { index: -6, len: 5 }));
        assert_eq!(resolve_range(&(0..6), 5), Err(IndexError::OutOfRange { index: 6, len: 5 }));
        assert_eq!(resolve_range(&(2..2), 5), Err(IndexError::Empty { start: 2, stop: 2, len: 5 }));
        assert_eq!(resolve_range(&(..), 0), Err(IndexError::Empty { start: 0, stop: 0, len: 0 }));
    }

    #[test]
    fn a_step_out_of_range_is_an_error() {
        assert_eq!(resolve(-1, 3), Ok(2));
        assert_eq!(resolve(2, 3), Ok(2));
        assert_eq!(resolve(3, 3), Err(IndexError::OutOfRange { index: 3, len: 3 }));
        assert_eq!(resolve(-4, 3), Err(IndexError::OutOfRange { index: -4, len: 3 }));
        assert_eq!(resolve(i64::MIN, 3), Err(IndexError::OutOfRange { index: i64::MIN, len: 3 }));
    }
}
