//! Replay tables with rate limiters that keep acting and learning in step.

use relive_table::{ErrorBuffer, MAX_TABLE_SIZE, RateLimiterConfig, TableConfig};

use crate::{Result, RlError};

/// The tolerance of the samples per insert, as a share of the samples that the smallest replay table allows.
const RATIO_TOLERANCE: f64 = 0.1;

/// The size of a replay table, and how often each of its items is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayTable<'a> {
    /// The table's name.
    pub name: &'a str,
    /// The number of items per batch.
    pub batch_size: usize,
    /// How many times each item is sampled, on average.
    pub samples_per_insert: f64,
    /// The number of items required before sampling begins.
    pub min_size: usize,
    /// The maximum number of items.
    pub max_size: u64,
    /// The number of items that one step may insert at once, for example at the end of an episode of n-step
    /// transitions.
    pub burst: usize,
}

impl ReplayTable<'_> {
    /// Returns the table, with uniform sampling and first-in-first-out eviction. Its rate limiter tolerates deviations
    /// from the ratio. The tolerance is a tenth of the samples that the smallest table allows, but at least two
    /// batches, and large enough that a thread that alternates between acting and learning never deadlocks.
    ///
    /// # Errors
    /// No table can maintain the ratio.
    #[expect(clippy::cast_precision_loss, reason = "tolerances")]
    pub fn config(&self) -> Result<TableConfig> {
        let least = i64::try_from(self.min_size).unwrap_or(i64::MAX);
        let tolerance = RATIO_TOLERANCE * self.samples_per_insert * least as f64;
        let (batch_size, burst) = (self.batch_size as f64, self.burst as f64);
        let buffer = tolerance.max(2.0 * self.samples_per_insert.max(batch_size));
        let buffer = buffer.max(batch_size + burst * self.samples_per_insert);
        let limiter = RateLimiterConfig::sample_to_insert_ratio(
            self.samples_per_insert,
            least,
            ErrorBuffer::Around(buffer),
        );
        let ratio = self.samples_per_insert;
        let limiter = limiter.map_err(|error| {
            RlError::setting(
                "samples_per_insert",
                format_args!("{ratio:e} ({error})"),
                "a ratio that a rate limiter supports",
            )
        })?;
        Ok(TableConfig::new(self.name).max_size(self.max_size).rate_limiter(limiter))
    }
}

/// Returns the table with room for every item of recorded data, and with a rate limiter that allows every sample once
/// there is an item. Recorded data is complete from the start, and may be sampled any number of times.
///
/// # Errors
/// None that a caller could cause.
pub fn for_recorded_data(table: TableConfig) -> Result<TableConfig> {
    let limiter = RateLimiterConfig::min_size(1);
    let limiter = limiter.map_err(|error| RlError::setting("a rate limiter", error, "a valid one"))?;
    Ok(table.max_size(MAX_TABLE_SIZE).rate_limiter(limiter))
}
