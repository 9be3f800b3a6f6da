//! The condition that a blocked caller is waiting for.

use core::fmt;

/// The reason why an insert or a sample is blocked, and how much is missing.
///
/// The counts describe the state of the limiter when they were read. Other operations change them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shortfall {
    /// An operator has paused the table.
    Paused {
        /// `inserts` or `samples`.
        what: &'static str,
    },
    /// A sample waits for the table to grow.
    MinSize {
        /// The number of items in the table.
        size: i64,
        /// The number of items that the table must hold.
        required: i64,
    },
    /// A sample waits for inserts: it would pull the cursor below the minimum.
    MinDiff {
        /// `inserts * samples_per_insert - samples`.
        cursor: f64,
        /// The lowest cursor that is permitted after a sample.
        min_diff: f64,
        /// The number of inserts that would allow one sample, or `u64::MAX` if no number of inserts would.
        missing_inserts: u64,
    },
    /// An insert waits for samples: it would push the cursor above the maximum.
    MaxDiff {
        /// `inserts * samples_per_insert - samples`.
        cursor: f64,
        /// The highest cursor that is permitted after an insert.
        max_diff: f64,
        /// The number of samples that would allow one insert, or `u64::MAX` if no number of samples would.
        missing_samples: u64,
    },
}

impl Shortfall {
    /// Returns the number of missing inserts, samples or items, or 0 if no number of them would help.
    pub fn missing(&self) -> u64 {
        match *self {
            Self::Paused { .. } => 0,
            Self::MinSize { size, required } => u64::try_from(required - size).unwrap_or(0),
            Self::MinDiff { missing_inserts: u64::MAX, .. }
            | Self::MaxDiff { missing_samples: u64::MAX, .. } => 0,
            Self::MinDiff { missing_inserts, .. } => missing_inserts,
            Self::MaxDiff { missing_samples, .. } => missing_samples,
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Paused { what } => {
                write!(f, "waits until the table's {what} are resumed: an operator has paused them")
            }
            Self::MinSize { size, required } => {
                write!(
                    f,
                    "needs {} more items in the table (has {size}, min_size_to_sample is {required})",
                    required - size
                )
            }
            Self::MinDiff { cursor, min_diff, missing_inserts } => {
                write!(
                    f,
                    "needs {} more inserts (cursor {cursor:?}, min_diff is {min_diff:?})",
                    Count(missing_inserts)
                )
            }
            Self::MaxDiff { cursor, max_diff, missing_samples } => {
                write!(
                    f,
                    "needs {} more samples (cursor {cursor:?}, max_diff is {max_diff:?})",
                    Count(missing_samples)
                )
            }
        }
    }
}

/// A count of missing operations. An infinite count is displayed in words.
struct Count(u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("infinitely many"),
            count => write!(f, "{count}"),
        }
    }
}
