//! The bounds of a rate limiter.

use thiserror::Error;

/// The largest `samples_per_insert`, far beyond any practical value. Its product with any count is finite.
pub const MAX_SAMPLES_PER_INSERT: f64 = 1e280;

/// The bounds of a rate limiter, which keeps a table's inserts and samples in proportion.
///
/// # The cursor
///
/// A limiter compares its *cursor* with two bounds:
///
/// ```text
/// cursor = inserts * samples_per_insert - samples
/// ```
///
/// The cursor counts inserted items and samples since the table was created or reset. Updating a priority does not
/// count as an insert.
///
/// * An insert may proceed if the table then holds at most `min_size_to_sample` items, or if the cursor is then at most
///   `max_diff`.
/// * A sample may proceed if the table holds at least `min_size_to_sample` items and the cursor is then at least
///   `min_diff`.
///
/// Deletions and evictions change the size of the table, never the cursor.
///
/// # Example
///
/// ```
/// use relive_table::{ErrorBuffer, RateLimiter, RateLimiterConfig};
///
/// // 2 samples per insert; the cursor stays between 0 and 8.
/// let config = RateLimiterConfig::sample_to_insert_ratio(2.0, 2, ErrorBuffer::Around(4.0))?;
/// let mut limiter = RateLimiter::new(config)?;
/// assert_eq!(limiter.can_sample(1), Ok(false), "the table is empty");
///
/// (0..4).for_each(|_| limiter.record_insert());
/// assert_eq!(limiter.cursor(), 8.0);
/// assert_eq!(limiter.can_insert(1), Ok(false), "a fifth insert would raise the cursor to 10");
/// assert_eq!(limiter.can_sample(8), Ok(true));
/// # Ok::<(), relive_table::RateLimiterError>(())
/// ```
///
/// # Units
///
/// `samples_per_insert` counts items, not steps. `min_diff` and `max_diff` are numbers of samples.
///
/// # Errors
///
/// The constructors return a [`RateLimiterError`] for bounds under which neither inserts nor samples could proceed.
/// [`validate`](Self::validate) checks a value that was built field by field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimiterConfig {
    /// The target number of samples per inserted item; above 0.
    pub samples_per_insert: f64,
    /// The number of items that the table must hold before it can be sampled; at least 1.
    pub min_size_to_sample: i64,
    /// The lowest cursor that is permitted after a sample.
    pub min_diff: f64,
    /// The highest cursor that is permitted after an insert.
    pub max_diff: f64,
}

/// How far the cursor of a limiter with a target ratio may deviate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ErrorBuffer {
    /// The cursor stays within this distance of `samples_per_insert * min_size_to_sample`.
    Around(f64),
    /// The cursor stays between these two values.
    Between {
        /// The lowest cursor.
        min_diff: f64,
        /// The highest cursor.
        max_diff: f64,
    },
}

/// The reason why the bounds of a limiter are invalid, in the order in which they are checked.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum RateLimiterError {
    /// The ratio is not a positive number.
    #[error("samples_per_insert must be a finite number above 0, got {actual:?}")]
    SamplesPerInsert {
        /// The requested ratio.
        actual: f64,
    },
    /// The ratio is so large that its product with a count may be infinite.
    #[error("samples_per_insert must be at most {limit:e}, got {actual:?}")]
    LargeSamplesPerInsert {
        /// The requested ratio.
        actual: f64,
        /// The largest, [`MAX_SAMPLES_PER_INSERT`].
        limit: f64,
    },
    /// The bounds are so close together that neither an insert nor a sample might be possible.
    #[error(
        "the error buffer [{min_diff:?}, {max_diff:?}] is too small: max_diff - min_diff must be at least \
         2 * max(1, samples_per_insert) = {required}; give a larger error_buffer"
    )]
    BufferTooSmall {
        /// The requested lowest cursor.
        min_diff: f64,
        /// The requested highest cursor.
        max_diff: f64,
        /// The smallest permitted distance between the bounds.
        required: f64,
    },
    /// Sampling could not begin with `min_size_to_sample` items.
    #[error(
        "min_diff {min_diff:?} is above samples_per_insert * min_size_to_sample = {center:?}, so a table of \
         min_size_to_sample items could not be sampled; give a lower min_diff"
    )]
    MinDiffTooHigh {
        /// The requested lowest cursor.
        min_diff: f64,
        /// The cursor when the table reaches its minimum size.
        center: f64,
    },
    /// The minimum size is below 1.
    #[error("min_size_to_sample must be at least 1, got {actual}")]
    MinSize {
        /// The requested size.
        actual: i64,
    },
    /// A bound is NaN, or the lower bound is above the upper bound.
    #[error("min_diff must not be above max_diff, and neither can be NaN; got {min_diff:?} and {max_diff:?}")]
    Bounds {
        /// The requested lowest cursor.
        min_diff: f64,
        /// The requested highest cursor.
        max_diff: f64,
    },
}

impl RateLimiterConfig {
    /// Blocks sampling until the table holds `min_size_to_sample` items, and never blocks inserts.
    ///
    /// # Errors
    /// The size is below 1.
    pub fn min_size(min_size_to_sample: i64) -> Result<Self, RateLimiterError> {
        let config =
            Self { samples_per_insert: 1.0, min_size_to_sample, min_diff: f64::MIN, max_diff: f64::MAX };
        config.validate().map(|()| config)
    }

    /// Keeps the number of samples near `samples_per_insert` times the number of inserts, once the table holds
    /// `min_size_to_sample` items.
    ///
    /// # Errors
    /// The first of the following errors that applies: the ratio is not positive; the bounds are closer than `2 *
    /// max(1, samples_per_insert)`; the lower bound is above `samples_per_insert * min_size_to_sample`; the size is
    /// below 1.
    ///
    /// ```
    /// use relive_table::{ErrorBuffer, RateLimiterConfig};
    /// let config = RateLimiterConfig::sample_to_insert_ratio(2.0, 2, ErrorBuffer::Around(4.0))?;
    /// assert_eq!((config.min_diff, config.max_diff), (0.0, 8.0));
    /// # Ok::<(), relive_table::RateLimiterError>(())
    /// ```
    pub fn sample_to_insert_ratio(
        samples_per_insert: f64,
        min_size_to_sample: i64,
        error_buffer: ErrorBuffer,
    ) -> Result<Self, RateLimiterError> {
        check_ratio(samples_per_insert)?;
        let center = samples_per_insert * as_f64(min_size_to_sample);
        let (min_diff, max_diff) = match error_buffer {
            ErrorBuffer::Around(margin) => (center - margin, center + margin),
            ErrorBuffer::Between { min_diff, max_diff } => (min_diff, max_diff),
        };
        let required = 2.0 * samples_per_insert.max(1.0);
        if max_diff - min_diff < required {
            return Err(RateLimiterError::BufferTooSmall { min_diff, max_diff, required });
        }
        if min_diff > center {
            return Err(RateLimiterError::MinDiffTooHigh { min_diff, center });
        }
        let config = Self { samples_per_insert, min_size_to_sample, min_diff, max_diff };
        config.validate().map(|()| config)
    }

    /// Samples each item once, and blocks inserts while `size` items wait to be sampled. With the selector `Fifo`, this
    /// is a queue.
    pub fn queue(size: u32) -> Self {
        Self { samples_per_insert: 1.0, min_size_to_sample: 1, min_diff: 0.0, max_diff: f64::from(size) }
    }

    /// Samples each item once, and blocks inserts while `size` items wait to be sampled. With the selector `Lifo`, this
    /// is a stack.
    pub fn stack(size: u32) -> Self {
        Self::queue(size)
    }

    /// Returns whether inserts and samples may block at the same time. That is possible if `max_diff` is below the
    /// cursor at which sampling begins: after deletions, inserts then block before the table reaches
    /// `min_size_to_sample` again.
    pub fn may_deadlock(&self) -> bool {
        self.max_diff < self.samples_per_insert * as_f64(self.min_size_to_sample)
    }

    /// Returns the highest cursor that inserts reach without any samples or deletions.
    pub fn highest_cursor(&self) -> f64 {
        let by_cursor = (self.max_diff / self.samples_per_insert).floor();
        self.samples_per_insert * by_cursor.max(as_f64(self.min_size_to_sample))
    }

    /// Validates the bounds.
    ///
    /// # Errors
    /// The ratio is not positive or is above [`MAX_SAMPLES_PER_INSERT`], the size is below 1, or the bounds are NaN or
    /// in the wrong order.
    pub fn validate(&self) -> Result<(), RateLimiterError> {
        check_ratio(self.samples_per_insert)?;
        let Self { min_diff, max_diff, min_size_to_sample, .. } = *self;
        if min_size_to_sample < 1 {
            return Err(RateLimiterError::MinSize { actual: min_size_to_sample });
        }
        if min_diff.is_nan() || max_diff.is_nan() || min_diff > max_diff {
            return Err(RateLimiterError::Bounds { min_diff, max_diff });
        }
        Ok(())
    }
}

fn check_ratio(actual: f64) -> Result<(), RateLimiterError> {
    let valid = actual > 0.0 && actual.is_finite();
    match actual <= MAX_SAMPLES_PER_INSERT {
        true if valid => Ok(()),
        false if valid => {
            Err(RateLimiterError::LargeSamplesPerInsert { actual, limit: MAX_SAMPLES_PER_INSERT })
        }
        _ => Err(RateLimiterError::SamplesPerInsert { actual }),
    }
}

/// Converts a count to a float, which is exact up to 2^53.
pub(super) fn as_f64(count: i64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_size_never_blocks_inserts() {
        let config = RateLimiterConfig::min_size(3).unwrap();
        assert_eq!((config.min_diff, config.max_diff), (-f64::MAX, f64::MAX));
        assert_eq!(RateLimiterConfig::min_size(0), Err(RateLimiterError::MinSize { actual: 0 }));
    }

    #[test]
    fn the_ratio_is_checked_before_the_buffer_and_the_buffer_before_the_size() {
        let ratio =
            |spi, size, buffer| RateLimiterConfig::sample_to_insert_ratio(spi, size, buffer).unwrap_err();
        let tiny = ErrorBuffer::Around(0.1);
        assert_eq!(ratio(0.0, 0, tiny), RateLimiterError::SamplesPerInsert { actual: 0.0 });
        let too_small = RateLimiterError::BufferTooSmall { min_diff: 2.0, max_diff: 7.0, required: 6.0 };
        assert_eq!(ratio(3.0, 0, ErrorBuffer::Between { min_diff: 2.0, max_diff: 7.0 }), too_small);
        let too_high = RateLimiterError::MinDiffTooHigh { min_diff: 1.0, center: 0.0 };
        assert_eq!(ratio(3.0, 0, ErrorBuffer::Between { min_diff: 1.0, max_diff: 7.0 }), too_high);
        assert_eq!(ratio(3.0, 0, ErrorBuffer::Around(3.0)), RateLimiterError::MinSize { actual: 0 });
    }

    #[test]
    fn nan_and_inverted_bounds_are_refused() {
        assert!(RateLimiterConfig::sample_to_insert_ratio(f64::NAN, 1, ErrorBuffer::Around(9.0)).is_err());
        assert!(RateLimiterConfig::sample_to_insert_ratio(1.0, 1, ErrorBuffer::Around(f64::NAN)).is_err());
        let turned = RateLimiterConfig { min_diff: 1.0, max_diff: 0.0, ..RateLimiterConfig::queue(1) };
        assert_eq!(turned.validate(), Err(RateLimiterError::Bounds { min_diff: 1.0, max_diff: 0.0 }));
    }

    #[test]
    fn ratios_that_make_cursors_infinite_are_refused() {
        let config = |samples_per_insert| RateLimiterConfig {
            samples_per_insert,
            ..RateLimiterConfig::min_size(1).unwrap()
        };
        assert_eq!(config(MAX_SAMPLES_PER_INSERT).validate(), Ok(()));
        assert!((MAX_SAMPLES_PER_INSERT * as_f64(i64::MAX)).is_finite());
        let error = config(1e308).validate().unwrap_err().to_string();
        assert_eq!(error, "samples_per_insert must be at most 1e280, got 1e308");
    }

    #[test]
    fn a_maximum_below_the_sampling_minimum_is_reported() {
        let between = |max_diff| {
            let buffer = ErrorBuffer::Between { min_diff: 0.0, max_diff };
            RateLimiterConfig::sample_to_insert_ratio(1.0, 10, buffer).unwrap()
        };
        assert!(between(9.0).may_deadlock());
        assert!(!between(10.0).may_deadlock());
    }
}
