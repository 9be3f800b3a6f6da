//! The configuration of a table.

use std::sync::Arc;

use relive_tensor::Signature;
use thiserror::Error;

use crate::limiter::{RateLimiterConfig, RateLimiterError};
use crate::selector::SelectorKind;

/// The largest `max_size`, because dm-reverb's clients use a signed 32-bit number.
pub const MAX_TABLE_SIZE: u64 = i32::MAX as u64;

/// The maximum length of a table's name, in bytes. The name is part of each of the table's metrics.
pub const MAX_TABLE_NAME_BYTES: usize = 1024;

/// The maximum number of shards of a table. Few machines have more cores, and the number is small enough that each
/// sample can check all shards.
pub const MAX_SHARDS: u32 = 64;

/// The rules of a table.
///
/// [`TableConfig::new`] sets the defaults. Each field has a builder method with the same name.
///
/// # Presets
///
/// | Constructor | Table |
/// |---|---|
/// | [`new`](Self::new) | samples uniformly, evicts the oldest item, holds one million items |
/// | [`queue`](Self::queue) | samples every item once, oldest first; blocks inserts while full |
/// | [`stack`](Self::stack) | samples every item once, newest first; blocks inserts while full |
///
/// # Example
///
/// ```
/// use relive_table::{ErrorBuffer, RateLimiterConfig, SelectorKind, TableConfig};
///
/// // Prioritized replay: 8 samples per insert, once the table holds 1,000 items.
/// let limiter = RateLimiterConfig::sample_to_insert_ratio(8.0, 1_000, ErrorBuffer::Around(800.0))?;
/// let config = TableConfig::new("replay")
///     .sampler(SelectorKind::Prioritized { exponent: 0.6 })
///     .max_size(100_000)
///     .rate_limiter(limiter);
/// assert_eq!(config.validate(), Ok(()));
/// assert_eq!(config.remover, SelectorKind::Fifo);
/// # Ok::<(), relive_table::RateLimiterError>(())
/// ```
///
/// # Errors
///
/// Setting a field does not validate it. [`validate`](Self::validate) checks the rules, as does every function that
/// creates a table from them.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a configuration has no effect until a table is created with it"]
pub struct TableConfig {
    /// The name of the table. It must not be empty or contain control characters, and must not be longer than
    /// [`MAX_TABLE_NAME_BYTES`].
    pub name: String,
    /// The selector that chooses the item to sample next. Default: uniform.
    pub sampler: SelectorKind,
    /// The selector that chooses the item to evict when the table exceeds `max_size` or `max_bytes`. Default: the
    /// oldest item.
    pub remover: SelectorKind,
    /// The largest number of items, from 1 to [`MAX_TABLE_SIZE`]. Default: one million.
    pub max_size: u64,
    /// The largest total stored size of the items' chunks, in bytes; at least 1. A chunk is counted once, regardless of
    /// how many items share it and whether it is in memory or on disk. A single item that exceeds the bound is refused.
    /// Default: no bound.
    pub max_bytes: Option<u64>,
    /// The number of samples after which an item is removed. If it is below 1, items are never removed. Default: 0.
    pub max_times_sampled: i32,
    /// The ratio of samples to inserts, and how far it may deviate. Default: samples wait as long as the table is
    /// empty.
    pub rate_limiter: RateLimiterConfig,
    /// The types and shapes of the items' columns. Clients check items against them; the table only stores them.
    /// Default: none.
    pub signature: Option<Arc<Signature>>,
    /// The number of shards into which an engine divides the table, each with its own lock and remover, from 1 to
    /// [`MAX_SHARDS`]. A [`Table`](crate::Table) is one shard. Checkpoints do not store it. Default: 1.
    pub shards: u32,
    /// The seed of the table's random choices. An empty table with the same rules and seed picks the same items if the
    /// same operations are performed in the same order. Checkpoints do not store it. Default: the engine chooses one.
    pub seed: Option<u64>,
    /// Whether to accept rules under which nothing could ever be sampled. dm-reverb accepts such rules. Default: false.
    pub allow_never_sampled: bool,
}

/// The reason why a configuration is invalid.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ConfigError {
    /// The name is empty.
    #[error("the name of a table must not be empty")]
    EmptyName,
    /// The name is too long.
    #[error(
        "the name of a table must have at most {limit} bytes, but the one that starts with {begins:?} has {actual}"
    )]
    LongName {
        /// Its first characters.
        begins: String,
        /// The name's length in bytes.
        actual: usize,
        /// The longest, [`MAX_TABLE_NAME_BYTES`].
        limit: usize,
    },
    /// The name contains control characters, which logs and terminals cannot display.
    #[error("the name of a table must not have control characters, got {name:?}")]
    ControlCharacters {
        /// The name.
        name: String,
    },
    /// The size is 0 or too large.
    #[error("max_size of table {table:?} must be from 1 to {limit}, got {actual}")]
    MaxSize {
        /// The name of the table.
        table: String,
        /// The requested size.
        actual: u64,
        /// The largest size, [`MAX_TABLE_SIZE`].
        limit: u64,
    },
    /// No item would fit.
    #[error("max_bytes of table {table:?} must be at least 1, got 0; omit it for a table without this bound")]
    MaxBytes {
        /// The name of the table.
        table: String,
    },
    /// The exponent of a prioritized selector is NaN or infinite.
    #[error("the priority exponent of the {role} of table {table:?} must be finite, got {exponent}")]
    Exponent {
        /// The name of the table.
        table: String,
        /// `sampler` or `remover`.
        role: &'static str,
        /// The requested exponent.
        exponent: f64,
    },
    /// The number of shards is 0 or too large.
    #[error("shards of table {table:?} must be from 1 to {limit}, got {actual}")]
    Shards {
        /// The name of the table.
        table: String,
        /// The requested number.
        actual: u32,
        /// The largest number, [`MAX_SHARDS`].
        limit: u32,
    },
    /// The rules require a table that is not divided into shards.
    #[error("table {table:?} cannot have {shards} shards: {reason}, or use shards = 1")]
    NotShardable {
        /// The name of the table.
        table: String,
        /// The requested number.
        shards: u32,
        /// The reason, and an alternative.
        reason: String,
    },
    /// The bounds of the rate limiter are invalid.
    #[error("rate limiter of table {table:?}: {source}")]
    RateLimiter {
        /// The name of the table.
        table: String,
        /// The limiter's reason.
        source: RateLimiterError,
    },
    /// The table can never hold as many items as a sample needs.
    #[error(
        "table {table:?} could never be sampled: max_size is {max_size}, but its rate limiter requires \
         {min_size_to_sample} items (min_size_to_sample); raise max_size or lower min_size_to_sample"
    )]
    NeverLargeEnough {
        /// The name of the table.
        table: String,
        /// Its `max_size`.
        max_size: u64,
        /// The number of items that a sample needs.
        min_size_to_sample: i64,
    },
    /// The rate limiter stops inserts before it allows the first sample.
    #[error(
        "table {table:?} could never be sampled: its rate limiter blocks inserts at a cursor of {highest:?} \
         (max_diff is {max_diff:?}), but the first sample needs min_diff + 1 = {needed:?}; lower min_diff or \
         raise max_diff"
    )]
    NeverFarEnough {
        /// The name of the table.
        table: String,
        /// The highest cursor that inserts reach before any sample or deletion.
        highest: f64,
        /// The highest cursor that is permitted after an insert.
        max_diff: f64,
        /// The cursor that a sample needs.
        needed: f64,
    },
}

impl TableConfig {
    /// Creates the default rules: uniform sampling, eviction of the oldest item, at most one million items.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            sampler: SelectorKind::Uniform,
            remover: SelectorKind::Fifo,
            max_size: 1_000_000,
            max_bytes: None,
            max_times_sampled: 0,
            rate_limiter: RateLimiterConfig {
                samples_per_insert: 1.0,
                min_size_to_sample: 1,
                min_diff: f64::MIN,
                max_diff: f64::MAX,
            },
            signature: None,
            shards: 1,
            seed: None,
            allow_never_sampled: false,
        }
    }

    /// Creates the rules of a queue: every item is sampled once, the oldest first, and inserts wait while the table is
    /// full.
    pub fn queue(name: impl Into<String>, max_size: u32) -> Self {
        Self::new(name)
            .sampler(SelectorKind::Fifo)
            .remover(SelectorKind::Fifo)
            .max_size(u64::from(max_size))
            .max_times_sampled(1)
            .rate_limiter(RateLimiterConfig::queue(max_size))
    }

    /// Creates the rules of a stack: every item is sampled once, the newest first, and inserts wait while the table is
    /// full.
    pub fn stack(name: impl Into<String>, max_size: u32) -> Self {
        Self::queue(name, max_size).sampler(SelectorKind::Lifo).remover(SelectorKind::Lifo)
    }

    /// Sets the selector that chooses the item to sample next.
    pub fn sampler(mut self, sampler: SelectorKind) -> Self {
        self.sampler = sampler;
        self
    }

    /// Sets the selector that chooses the item to evict when the table exceeds `max_size` or `max_bytes`.
    pub fn remover(mut self, remover: SelectorKind) -> Self {
        self.remover = remover;
        self
    }

    /// Sets the largest number of items.
    pub fn max_size(mut self, max_size: u64) -> Self {
        self.max_size = max_size;
        self
    }

    /// Sets the largest number of bytes.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// Sets the number of samples after which an item is removed. If it is below 1, items are never removed.
    pub fn max_times_sampled(mut self, max_times_sampled: i32) -> Self {
        self.max_times_sampled = max_times_sampled;
        self
    }

    /// Sets the rate limiter.
    pub fn rate_limiter(mut self, rate_limiter: RateLimiterConfig) -> Self {
        self.rate_limiter = rate_limiter;
        self
    }

    /// Sets the types and shapes of the items' columns.
    pub fn signature(mut self, signature: impl Into<Arc<Signature>>) -> Self {
        self.signature = Some(signature.into());
        self
    }

    /// Sets the number of shards. Inserts into different shards do not wait for each other.
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Sets the seed of the table's random choices.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets whether to accept rules under which nothing could ever be sampled.
    pub fn allow_never_sampled(mut self, allow: bool) -> Self {
        self.allow_never_sampled = allow;
        self
    }

    /// Validates the rules for a new table.
    ///
    /// # Errors
    /// The errors of [`validate_ranges`](Self::validate_ranges). Unless
    /// [`allow_never_sampled`](Self::allow_never_sampled) is set, this also refuses a `max_size` below the limiter's
    /// `min_size_to_sample`, and a `max_diff` so close to `min_diff` that inserts stop before the first sample may
    /// proceed. Samples from such a table would wait indefinitely.
    ///
    /// ```
    /// use relive_table::{RateLimiterConfig, TableConfig};
    /// let never = TableConfig::new("replay").max_size(10).rate_limiter(RateLimiterConfig::min_size(100)?);
    /// assert!(never.validate().unwrap_err().to_string().contains("could never be sampled"));
    /// # Ok::<(), relive_table::RateLimiterError>(())
    /// ```
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_ranges()?;
        if self.allow_never_sampled { Ok(()) } else { self.check_can_be_sampled() }
    }

    /// Validates the rules for any table, including one in a checkpoint.
    ///
    /// # Errors
    /// * A name that is empty, contains control characters, or is longer than [`MAX_TABLE_NAME_BYTES`].
    /// * A `max_size` of 0 or above [`MAX_TABLE_SIZE`]; a `max_bytes` of 0.
    /// * An exponent that is not finite.
    /// * Bounds that [`RateLimiterConfig::validate`] refuses.
    /// * A number of shards that is 0, above [`MAX_SHARDS`] or above `max_size`.
    /// * More than one shard with a sampler other than `Uniform` and `Prioritized`, with a rate limiter that checks
    ///   more than the size, or with `max_bytes`.
    ///
    /// ```
    /// use relive_table::TableConfig;
    /// let error = TableConfig::new("replay").max_size(0).validate_ranges().unwrap_err();
    /// assert_eq!(error.to_string(), "max_size of table \"replay\" must be from 1 to 2147483647, got 0");
    /// ```
    pub fn validate_ranges(&self) -> Result<(), ConfigError> {
        if self.name.is_empty() {
            return Err(ConfigError::EmptyName);
        }
        if self.name.len() > MAX_TABLE_NAME_BYTES {
            let (begins, actual) = (self.name.chars().take(32).collect(), self.name.len());
            return Err(ConfigError::LongName { begins, actual, limit: MAX_TABLE_NAME_BYTES });
        }
        if self.name.contains(char::is_control) {
            return Err(ConfigError::ControlCharacters { name: self.name.clone() });
        }
        if !(1..=MAX_TABLE_SIZE).contains(&self.max_size) {
            let (actual, limit) = (self.max_size, MAX_TABLE_SIZE);
            return Err(ConfigError::MaxSize { table: self.name.clone(), actual, limit });
        }
        if self.max_bytes == Some(0) {
            return Err(ConfigError::MaxBytes { table: self.name.clone() });
        }
        self.check_exponent("sampler", self.sampler)?;
        self.check_exponent("remover", self.remover)?;
        let in_table = |source| ConfigError::RateLimiter { table: self.name.clone(), source };
        self.rate_limiter.validate().map_err(in_table)?;
        self.check_shards()
    }

    /// Checks that samples can proceed even if no client deletes items.
    pub(crate) fn check_can_be_sampled(&self) -> Result<(), ConfigError> {
        let RateLimiterConfig { min_size_to_sample, min_diff, max_diff, .. } = self.rate_limiter;
        let (table, max_size) = (|| self.name.clone(), self.max_size);
        if u64::try_from(min_size_to_sample).is_ok_and(|needed| needed > max_size) {
            return Err(ConfigError::NeverLargeEnough { table: table(), max_size, min_size_to_sample });
        }
        let (highest, needed) = (self.rate_limiter.highest_cursor(), min_diff + 1.0);
        if highest < needed {
            return Err(ConfigError::NeverFarEnough { table: table(), highest, max_diff, needed });
        }
        Ok(())
    }

    fn check_shards(&self) -> Result<(), ConfigError> {
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            let (table, actual) = (self.name.clone(), self.shards);
            return Err(ConfigError::Shards { table, actual, limit: MAX_SHARDS });
        }
        match self.obstacle_to_shards().filter(|_| self.shards > 1) {
            Some(reason) => Err(self.not_shardable(reason)),
            None => Ok(()),
        }
    }

    /// Returns the error for a table that cannot be divided into shards, with the reason.
    pub fn not_shardable(&self, reason: String) -> ConfigError {
        ConfigError::NotShardable { table: self.name.clone(), shards: self.shards, reason }
    }

    /// Returns the reason why the table cannot be divided into shards, and a remedy.
    fn obstacle_to_shards(&self) -> Option<String> {
        if self.max_size < u64::from(self.shards) {
            let max_size = self.max_size;
            return Some(format!(
                "max_size is {max_size}, but each shard needs room for one item; raise max_size"
            ));
        }
        if !matches!(self.sampler, SelectorKind::Uniform | SelectorKind::Prioritized { .. }) {
            let sampler = self.sampler;
            return Some(format!(
                "its sampler {sampler} needs all items in one place; use Uniform or Prioritized"
            ));
        }
        let RateLimiterConfig { min_diff, max_diff, .. } = self.rate_limiter;
        if min_diff > f64::MIN || max_diff < f64::MAX {
            return Some(format!(
                "its rate limiter counts all inserts and samples (min_diff is {min_diff:?}, max_diff is {max_diff:?}); use MinSize"
            ));
        }
        let max_bytes = self.max_bytes?;
        Some(format!(
            "max_bytes is {max_bytes}, which applies to all shards together; use max_size, or max_bytes of the server"
        ))
    }

    fn check_exponent(&self, role: &'static str, kind: SelectorKind) -> Result<(), ConfigError> {
        match kind {
            SelectorKind::Prioritized { exponent } if !exponent.is_finite() => {
                Err(ConfigError::Exponent { table: self.name.clone(), role, exponent })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_named_with_the_actual_value() {
        let text = |config: TableConfig| config.validate().unwrap_err().to_string();
        assert_eq!(text(TableConfig::new("")), "the name of a table must not be empty");
        let long = text(TableConfig::new("x".repeat(1025)));
        assert!(long.contains("at most 1024 bytes") && long.ends_with("has 1025"), "{long}");
        let message = "the name of a table must not have control characters, got \"a\\u{1b}\"";
        assert_eq!(text(TableConfig::new("a\u{1b}")), message);
        let large = TableConfig::new("t").max_size(1 << 31);
        assert_eq!(text(large), "max_size of table \"t\" must be from 1 to 2147483647, got 2147483648");
        let empty = TableConfig::new("t").max_bytes(0);
        assert_eq!(
            text(empty),
            "max_bytes of table \"t\" must be at least 1, got 0; omit it for a table without this bound"
        );
        let nan = TableConfig::new("t").remover(SelectorKind::Prioritized { exponent: f64::NAN });
        assert_eq!(text(nan), "the priority exponent of the remover of table \"t\" must be finite, got NaN");
        assert_eq!(
            text(TableConfig::new("t").shards(65)),
            "shards of table \"t\" must be from 1 to 64, got 65"
        );
        let limiter = RateLimiterConfig { min_size_to_sample: 0, ..RateLimiterConfig::queue(1) };
        assert_eq!(
            text(TableConfig::new("t").rate_limiter(limiter)),
            "rate limiter of table \"t\": min_size_to_sample must be at least 1, got 0"
        );
    }

    #[test]
    fn rules_that_prevent_sampling_are_refused_with_both_numbers() {
        let never =
            TableConfig::new("t").max_size(10).rate_limiter(RateLimiterConfig::min_size(100).unwrap());
        assert_eq!(
            never.validate().unwrap_err().to_string(),
            "table \"t\" could never be sampled: max_size is 10, but its rate limiter requires 100 items \
             (min_size_to_sample); raise max_size or lower min_size_to_sample"
        );
        assert_eq!(never.validate_ranges(), Ok(()));
        assert_eq!(never.clone().allow_never_sampled(true).validate(), Ok(()));
        assert_eq!(never.max_size(100).validate(), Ok(()));
        let bounds = |min_diff, max_diff| {
            let limiter = RateLimiterConfig { min_diff, max_diff, ..RateLimiterConfig::queue(1) };
            TableConfig::new("t").rate_limiter(limiter).validate()
        };
        assert_eq!(
            bounds(5.0, 5.5).unwrap_err().to_string(),
            "table \"t\" could never be sampled: its rate limiter blocks inserts at a cursor of 5.0 (max_diff \
             is 5.5), but the first sample needs min_diff + 1 = 6.0; lower min_diff or raise max_diff"
        );
        assert_eq!(bounds(5.0, 6.0), Ok(()));
        assert_eq!(bounds(0.0, -7.0 + 8.0), Ok(()));
    }

    #[test]
    fn unsupported_sharded_configurations_are_refused_with_advice() {
        let message = |config: TableConfig| config.validate().unwrap_err().to_string();
        assert_eq!(
            message(TableConfig::new("t").max_size(3).shards(4)),
            "table \"t\" cannot have 4 shards: max_size is 3, but each shard needs room for one item; raise max_size, or use shards = 1"
        );
        assert_eq!(
            message(TableConfig::new("t").sampler(SelectorKind::Fifo).shards(2)),
            "table \"t\" cannot have 2 shards: its sampler Fifo needs all items in one place; use Uniform or Prioritized, or use shards = 1"
        );
        assert_eq!(
            message(TableConfig::new("t").rate_limiter(RateLimiterConfig::queue(5)).shards(2)),
            "table \"t\" cannot have 2 shards: its rate limiter counts all inserts and samples (min_diff is \
             0.0, max_diff is 5.0); use MinSize, or use shards = 1"
        );
        assert_eq!(
            message(TableConfig::new("t").max_bytes(7).shards(2)),
            "table \"t\" cannot have 2 shards: max_bytes is 7, which applies to all shards together; use \
             max_size, or max_bytes of the server, or use shards = 1"
        );
        let fine = TableConfig::new("t")
            .max_size(64)
            .max_times_sampled(1)
            .sampler(SelectorKind::Prioritized { exponent: 0.5 })
            .remover(SelectorKind::MinHeap)
            .rate_limiter(RateLimiterConfig::min_size(9).unwrap());
        assert_eq!(fine.shards(MAX_SHARDS).validate(), Ok(()));
    }

    #[test]
    fn the_largest_size_negative_exponents_and_sample_limits_are_fine() {
        let config = TableConfig::new("t")
            .max_size(MAX_TABLE_SIZE)
            .max_bytes(1)
            .sampler(SelectorKind::Prioritized { exponent: -2.0 })
            .max_times_sampled(-3);
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(TableConfig::queue("q", 5).validate(), Ok(()));
        assert_eq!(TableConfig::stack("s", 5).sampler, SelectorKind::Lifo);
    }
}
