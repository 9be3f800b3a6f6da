//! What a blocked caller waits for.

use core::fmt;

use super::{RateLimiter, config::as_f64};

/// Why an insert or a sample is blocked, and how much is missing until it is not.
///
/// The counts hold for the limiter as it stands; whatever happens meanwhile changes them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shortfall {
    /// An operator has paused the table.
    Paused {
        /// `inserts` or `samples`.
        what: &'static str,
    },
    /// A sample waits for the table to grow.
    MinSize {
        /// Items in the table.
        size: i64,
        /// Items that the table must hold.
        required: i64,
    },
    /// A sample waits for inserts: it would pull the cursor below the minimum.
    MinDiff {
        /// `inserts * samples_per_insert - samples`.
        cursor: f64,
        /// The lowest cursor that a sample may leave behind.
        min_diff: f64,
        /// How many inserts let one sample pass; `u64::MAX` if no number does.
        missing_inserts: u64,
    },
    /// An insert waits for samples: it would push the cursor above the maximum.
    MaxDiff {
        /// `inserts * samples_per_insert - samples`.
        cursor: f64,
        /// The highest cursor that an insert may leave behind.
        max_diff: f64,
        /// How many samples let one insert pass; `u64::MAX` if no number does.
        missing_samples: u64,
    },
}

impl Shortfall {
    /// How many inserts, samples or items must come first; 0 where no number of them helps.
    pub fn missing(&self) -> u64 {
        match *self {
            Self::Paused { .. } => 0,
            Self::MinSize { size, required } => u64::try_from(required - size).unwrap_or(0),
            Self::MinDiff { missing_inserts, .. } => missing_inserts,
            Self::MaxDiff { missing_samples, .. } => missing_samples,
        }
    }

    /// What `limiter` lacks for one insert; `None` if it may happen now.
    pub(super) fn of_insert(limiter: &RateLimiter) -> Option<Self> {
        if limiter.allows_inserts(1) {
            return None;
        }
        if limiter.paused().inserts {
            return Some(Self::Paused { what: "inserts" });
        }
        let (cursor, max_diff) = (limiter.cursor(), limiter.config().max_diff);
        let excess = cursor + limiter.config().samples_per_insert - max_diff;
        let missing_samples = least_count(excess, |more| limiter.with_counts(0, more).allows_inserts(1));
        Some(Self::MaxDiff { cursor, max_diff, missing_samples })
    }

    /// What `limiter` lacks for one sample; `None` if it may happen now.
    pub(super) fn of_sample(limiter: &RateLimiter) -> Option<Self> {
        if limiter.allows_samples(1) {
            return None;
        }
        if limiter.paused().samples {
            return Some(Self::Paused { what: "samples" });
        }
        let required = limiter.config().min_size_to_sample;
        if limiter.size() < required {
            return Some(Self::MinSize { size: limiter.size(), required });
        }
        let (cursor, min_diff) = (limiter.cursor(), limiter.config().min_diff);
        let inserts = (min_diff + 1.0 - cursor) / limiter.config().samples_per_insert;
        let missing_inserts = least_count(inserts, |more| limiter.with_counts(more, 0).allows_samples(1));
        Some(Self::MinDiff { cursor, min_diff, missing_inserts })
    }
}

/// The least count that satisfies `enough`, near `estimate`, whose rounding it mends.
fn least_count(estimate: f64, enough: impl Fn(i64) -> bool) -> u64 {
    const NEVER: u64 = u64::MAX;
    if estimate.is_nan() || estimate >= as_f64(i64::MAX) {
        return NEVER;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within i64 by the check above")]
    let rounded = estimate.max(1.0).ceil() as i64;
    let candidates = [rounded.saturating_sub(1).max(1), rounded, rounded.saturating_add(1)];
    candidates
        .into_iter()
        .find(|&count| enough(count))
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or(NEVER)
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

/// A count of missing operations, in words where it is endless.
struct Count(u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("infinitely many"),
            count => write!(f, "{count}"),
        }
    }
}
