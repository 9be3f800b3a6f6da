//! The limiter's counters, and the decisions based on them.

use thiserror::Error;

use super::config::as_f64;
use super::{RateLimiterConfig, RateLimiterError};

/// Counts the inserts, samples and deletions of one table, and decides which operations may proceed.
///
/// ```
/// use relive_table::{ErrorBuffer, RateLimiter, RateLimiterConfig};
/// let config = RateLimiterConfig::sample_to_insert_ratio(2.0, 2, ErrorBuffer::Around(4.0))?;
/// let mut limiter = RateLimiter::new(config)?;
/// (0..4).for_each(|_| limiter.record_insert());
/// assert_eq!(limiter.can_insert(1), Ok(false));
/// assert_eq!(limiter.can_sample(8), Ok(true));
/// # Ok::<(), relive_table::RateLimiterError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimiter {
    config: RateLimiterConfig,
    inserts: i64,
    samples: i64,
    deletes: i64,
    /// The correction that keeps the cursor unchanged when the ratio changes.
    carried: f64,
    paused: Paused,
}

/// The operations of a table that an operator has paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Paused {
    /// Inserts wait, regardless of the bounds.
    pub inserts: bool,
    /// Samples wait, regardless of the bounds.
    pub samples: bool,
}

/// The given number of operations is below 1.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the number of operations must be at least 1, got {actual}")]
pub struct CountError {
    /// The number given.
    pub actual: i64,
}

impl RateLimiter {
    /// Creates a limiter with all counters at 0.
    ///
    /// # Errors
    /// [`RateLimiterConfig::validate`] refuses the bounds.
    pub fn new(config: RateLimiterConfig) -> Result<Self, RateLimiterError> {
        config.validate()?;
        Ok(Self { config, inserts: 0, samples: 0, deletes: 0, carried: 0.0, paused: Paused::default() })
    }

    /// Returns the bounds.
    pub fn config(&self) -> &RateLimiterConfig {
        &self.config
    }

    /// Returns the number of completed inserts of new items.
    pub fn inserts(&self) -> i64 {
        self.inserts
    }

    /// Returns the number of completed samples.
    pub fn samples(&self) -> i64 {
        self.samples
    }

    /// Returns the number of items that left the table, for any reason.
    pub fn deletes(&self) -> i64 {
        self.deletes
    }

    /// Returns the number of items in the table: inserts minus deletes.
    pub fn size(&self) -> i64 {
        self.inserts.saturating_sub(self.deletes)
    }

    /// Returns `inserts * samples_per_insert - samples`, which the limiter keeps between the bounds. If the ratio was
    /// [changed](Self::set_config), each insert is weighted with the ratio that applied when it was made.
    pub fn cursor(&self) -> f64 {
        self.cursor_after(self.inserts)
    }

    fn cursor_after(&self, inserts: i64) -> f64 {
        as_f64(inserts) * self.config.samples_per_insert - as_f64(self.samples) + self.carried
    }

    /// Returns which operations are paused.
    pub fn paused(&self) -> Paused {
        self.paused
    }

    /// Pauses or resumes operations.
    pub fn set_paused(&mut self, paused: Paused) {
        self.paused = paused;
    }

    /// Changes the bounds. The counters and the cursor do not change, because a new ratio applies only to later
    /// inserts. Otherwise, an old table would first have to make up for the difference between the ratios over all of
    /// its past inserts.
    ///
    /// # Errors
    /// [`RateLimiterConfig::validate`] refuses the bounds. The limiter then remains unchanged.
    pub fn set_config(&mut self, config: RateLimiterConfig) -> Result<(), RateLimiterError> {
        config.validate()?;
        self.carried += as_f64(self.inserts) * (self.config.samples_per_insert - config.samples_per_insert);
        self.config = config;
        Ok(())
    }

    /// Returns the number of samples that would give the current cursor if the current ratio had always applied. File
    /// formats that store only this number use it. It equals [`samples`](Self::samples) unless the ratio was changed,
    /// and is negative if the cursor without any samples would be lower.
    pub(crate) fn samples_of_cursor(&self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and counts are whole")]
        let carried = self.carried.round() as i64;
        self.samples.saturating_sub(carried)
    }

    /// Returns whether `count` inserts in a row may proceed now. Evictions between these inserts, which reduce the size
    /// of a full table, are not taken into account.
    ///
    /// # Errors
    /// The count is below 1.
    pub fn can_insert(&self, count: i64) -> Result<bool, CountError> {
        check_count(count).map(|()| self.allows_inserts(count))
    }

    /// Returns whether `count` samples in a row may proceed now. Removals due to `max_times_sampled` are not taken into
    /// account.
    ///
    /// # Errors
    /// The count is below 1.
    pub fn can_sample(&self, count: i64) -> Result<bool, CountError> {
        check_count(count).map(|()| self.allows_samples(count))
    }

    pub(crate) fn allows_inserts(&self, count: i64) -> bool {
        if self.paused.inserts {
            return false;
        }
        let inserts = self.inserts.saturating_add(count);
        if inserts.saturating_sub(self.deletes) <= self.config.min_size_to_sample {
            return true;
        }
        self.cursor_after(inserts) <= self.config.max_diff
    }

    pub(crate) fn allows_samples(&self, count: i64) -> bool {
        !self.paused.samples
            && self.size() >= self.config.min_size_to_sample
            && self.cursor() - as_f64(count) >= self.config.min_diff
    }

    /// Counts an insert of a new item.
    pub fn record_insert(&mut self) {
        self.inserts = self.inserts.saturating_add(1);
    }

    /// Counts a sample.
    pub fn record_sample(&mut self) {
        self.samples = self.samples.saturating_add(1);
    }

    /// Counts an item that left the table.
    pub fn record_delete(&mut self) {
        self.deletes = self.deletes.saturating_add(1);
    }

    /// Sets all counters to 0. Paused operations stay paused.
    pub fn reset(&mut self) {
        *self = Self { inserts: 0, samples: 0, deletes: 0, carried: 0.0, ..self.clone() };
    }

    /// Returns a limiter with the same bounds, the cursor of the given counts, and these counts. If `samples` is
    /// negative, no samples are counted.
    pub(crate) fn with_counters(&self, inserts: i64, samples: i64, deletes: i64) -> Self {
        let carried = as_f64(samples.min(0).saturating_neg());
        Self { inserts, samples: samples.max(0), deletes, carried, ..self.clone() }
    }

    /// Returns the limiter after the given numbers of further inserts and samples.
    pub(super) fn with_counts(&self, more_inserts: i64, more_samples: i64) -> Self {
        let inserts = self.inserts.saturating_add(more_inserts);
        Self { inserts, samples: self.samples.saturating_add(more_samples), ..self.clone() }
    }
}

fn check_count(actual: i64) -> Result<(), CountError> {
    if actual < 1 { Err(CountError { actual }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::{ErrorBuffer, Shortfall};

    fn limiter(config: RateLimiterConfig) -> RateLimiter {
        RateLimiter::new(config).unwrap()
    }

    #[test]
    fn the_limiter_matches_the_worked_example() {
        let buffer = ErrorBuffer::Around(4.0);
        let mut limiter = limiter(RateLimiterConfig::sample_to_insert_ratio(2.0, 2, buffer).unwrap());
        for _ in 0..4 {
            assert_eq!(limiter.can_insert(1), Ok(true));
            limiter.record_insert();
        }
        assert_eq!(limiter.can_insert(1), Ok(false), "the fifth insert blocks");
        let shortfall = limiter.insert_shortfall();
        assert_eq!(shortfall, Some(Shortfall::MaxDiff { cursor: 8.0, max_diff: 8.0, missing_samples: 2 }));
        let mut samples = 0;
        let mut inserted = false;
        while limiter.can_sample(1) == Ok(true) {
            limiter.record_sample();
            samples += 1;
            if !inserted && limiter.can_insert(1) == Ok(true) {
                limiter.record_insert();
                inserted = true;
                assert_eq!(samples, 2);
            }
        }
        assert_eq!(samples, 10);
        let shortfall = limiter.sample_shortfall();
        assert_eq!(shortfall, Some(Shortfall::MinDiff { cursor: 0.0, min_diff: 0.0, missing_inserts: 1 }));
    }

    #[test]
    fn deletes_change_the_size_but_not_the_cursor() {
        let mut limiter = limiter(RateLimiterConfig::queue(2));
        limiter.record_insert();
        limiter.record_insert();
        assert_eq!(limiter.can_insert(1), Ok(false));
        limiter.record_delete();
        assert_eq!((limiter.can_insert(1), limiter.cursor()), (Ok(false), 2.0));
        limiter.record_delete();
        assert_eq!(limiter.can_insert(1), Ok(true), "up to min_size_to_sample inserts always pass");
        assert_eq!(limiter.sample_shortfall(), Some(Shortfall::MinSize { size: 0, required: 1 }));
        limiter.reset();
        assert_eq!((limiter.inserts(), limiter.samples(), limiter.deletes()), (0, 0, 0));
    }

    #[test]
    fn a_changed_ratio_applies_from_the_change_on() {
        let config = |samples_per_insert| RateLimiterConfig {
            samples_per_insert,
            max_diff: 10.0,
            ..RateLimiterConfig::queue(1)
        };
        let mut limiter = limiter(config(2.0));
        (0..100).for_each(|_| limiter.record_insert());
        (0..195).for_each(|_| limiter.record_sample());
        limiter.set_config(config(5.0)).unwrap();
        assert_eq!((limiter.cursor(), limiter.samples()), (5.0, 195));
        limiter.record_insert();
        assert_eq!((limiter.cursor(), limiter.can_insert(1)), (10.0, Ok(false)));
        assert_eq!(limiter.samples_of_cursor(), 101 * 5 - 10);
        let again = limiter.with_counters(101, limiter.samples_of_cursor(), 0);
        assert_eq!(again.cursor(), 10.0, "the stored counters lead to the same cursor");
        let mut unsampled = again.with_counters(100, 0, 0);
        unsampled.set_config(config(1.0)).unwrap();
        assert_eq!((unsampled.cursor(), unsampled.samples_of_cursor()), (500.0, -400));
        let again = unsampled.with_counters(100, -400, 0);
        assert_eq!(
            (again.cursor(), again.samples(), again.samples_of_cursor()),
            (500.0, 0, -400),
            "below zero, too"
        );
        let refused = limiter.set_config(RateLimiterConfig { min_size_to_sample: 0, ..config(1.0) });
        assert_eq!((refused.is_err(), limiter.cursor()), (true, 10.0));
        limiter.reset();
        assert_eq!(limiter.cursor(), 0.0);
    }

    #[test]
    fn a_paused_limiter_reports_it_and_stays_paused_after_a_reset() {
        let mut limiter = limiter(RateLimiterConfig::min_size(1).unwrap());
        limiter.record_insert();
        limiter.set_paused(Paused { inserts: true, samples: false });
        assert_eq!(limiter.insert_shortfall(), Some(Shortfall::Paused { what: "inserts" }));
        assert_eq!(limiter.sample_shortfall(), None);
        limiter.set_paused(Paused { inserts: false, samples: true });
        limiter.reset();
        assert_eq!(limiter.insert_shortfall(), None);
        let text = limiter.sample_shortfall().unwrap().to_string();
        assert_eq!(text, "waits until the table's samples are resumed: an operator has paused them");
    }

    #[test]
    fn fewer_than_one_operation_is_an_error() {
        let limiter = limiter(RateLimiterConfig::queue(1));
        assert_eq!(limiter.can_insert(0), Err(CountError { actual: 0 }));
        assert_eq!(limiter.can_sample(i64::MIN), Err(CountError { actual: i64::MIN }));
        assert_eq!((limiter.can_insert(i64::MAX), limiter.can_sample(i64::MAX)), (Ok(false), Ok(false)));
    }

    #[test]
    fn an_unsatisfiable_shortfall_is_reported() {
        let never = RateLimiterConfig { min_diff: 1e300, max_diff: 1e301, ..RateLimiterConfig::queue(1) };
        let mut limiter = limiter(never);
        limiter.record_insert();
        let shortfall = limiter.sample_shortfall().unwrap();
        assert_eq!(
            shortfall.to_string(),
            "needs infinitely many more inserts (cursor 1.0, min_diff is 1e300)"
        );
    }

    #[test]
    fn missing_counts_are_minimal() {
        for (spi, samples) in [(0.3, 7), (2.5, 40), (1.0, 3), (0.1, 1)] {
            let config =
                RateLimiterConfig { samples_per_insert: spi, min_diff: 0.0, ..RateLimiterConfig::queue(9) };
            let mut limiter = limiter(config);
            limiter.record_insert();
            (0..samples).for_each(|_| limiter.record_sample());
            let Some(Shortfall::MinDiff { missing_inserts, .. }) = limiter.sample_shortfall() else {
                panic!("{samples} samples of one item at {spi} per insert are too many");
            };
            (1..missing_inserts).for_each(|_| limiter.record_insert());
            assert_eq!(limiter.can_sample(1), Ok(false), "one insert fewer does not suffice at {spi}");
            limiter.record_insert();
            assert_eq!(limiter.can_sample(1), Ok(true), "this many inserts suffice at {spi}");
        }
    }
}
