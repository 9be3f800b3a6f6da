//! What a table is told to be.

use std::sync::Arc;

use relive_tensor::Signature;
use thiserror::Error;

use crate::{RateLimiterConfig, RateLimiterError, SelectorKind};

/// The largest `max_size`: clients of dm-reverb read and write it as a signed 32-bit number.
pub const MAX_TABLE_SIZE: u64 = i32::MAX as u64;

/// The longest name of a table, which stands in every metric of it.
pub const MAX_TABLE_NAME_BYTES: usize = 1024;

/// The most shards of a table: above the cores of most machines, few enough that whoever samples can look at all of them.
pub const MAX_SHARDS: u32 = 64;

/// A table's rules. Made with [`TableConfig::new`] and changed field by field; checked by
/// [`Table::new`](crate::Table::new).
#[derive(Clone, Debug, PartialEq)]
pub struct TableConfig {
    /// The name by which clients ask for the table; not empty.
    pub name: String,
    /// Which item is sampled next. Default: uniform.
    pub sampler: SelectorKind,
    /// Which item leaves when the table holds more than `max_size` or `max_bytes`. Default: the oldest.
    pub remover: SelectorKind,
    /// The number of items that the table keeps, from 1 to [`MAX_TABLE_SIZE`]. Default: one million.
    pub max_size: u64,
    /// The bytes that the table keeps, at least 1: of its items' chunks as they are stored, each chunk counted once however
    /// many items share it, wherever it lies. An item that alone has more is refused. Default: no bound.
    pub max_bytes: Option<u64>,
    /// An item is deleted by its sample number `max_times_sampled`; below 1: never. Default: 0.
    pub max_times_sampled: i32,
    /// How far samples and inserts may run apart. Default: sampling blocks while the table is empty.
    pub rate_limiter: RateLimiterConfig,
    /// What the items' columns look like, for clients to check against; the table itself only keeps it.
    pub signature: Option<Arc<Signature>>,
    /// Into how many parts an engine divides the table, each with a lock and a remover of its own, from 1 to [`MAX_SHARDS`]; a
    /// [`Table`](crate::Table) is one of them. No state of the table: a checkpoint does not keep it. Default: 1.
    pub shards: u32,
}

/// Why there can be no table of this configuration.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ConfigError {
    /// The name is empty.
    #[error("a table needs a name that is not empty")]
    EmptyName,
    /// The name is too long.
    #[error(
        "the name of a table has at most {limit} bytes, the one that begins with {begins:?} has {actual}"
    )]
    LongName {
        /// Its first characters.
        begins: String,
        /// Its length in bytes.
        actual: usize,
        /// The longest, [`MAX_TABLE_NAME_BYTES`].
        limit: usize,
    },
    /// The name has characters that no line of a log or of a terminal can show.
    #[error("the name of a table cannot have control characters, {name:?} has")]
    ControlCharacters {
        /// The name.
        name: String,
    },
    /// The size is 0 or too large.
    #[error("max_size of table {table:?} must be from 1 to {limit}, it is {actual}")]
    MaxSize {
        /// Name of the table.
        table: String,
        /// The size asked for.
        actual: u64,
        /// The largest size, [`MAX_TABLE_SIZE`].
        limit: u64,
    },
    /// No item would fit.
    #[error(
        "max_bytes of table {table:?} must be at least 1, it is 0; leave it out for a table without this bound"
    )]
    MaxBytes {
        /// Name of the table.
        table: String,
    },
    /// The exponent of a prioritized selector is NaN or infinite.
    #[error("the priority exponent of the {role} of table {table:?} must be finite, it is {exponent}")]
    Exponent {
        /// Name of the table.
        table: String,
        /// `sampler` or `remover`.
        role: &'static str,
        /// The exponent asked for.
        exponent: f64,
    },
    /// The number of shards is 0 or too large.
    #[error("shards of table {table:?} must be from 1 to {limit}, it is {actual}")]
    Shards {
        /// Name of the table.
        table: String,
        /// The number asked for.
        actual: u32,
        /// The largest number, [`MAX_SHARDS`].
        limit: u32,
    },
    /// Shards, each on its own, cannot do what the table is to do.
    #[error("table {table:?} cannot have {shards} shards: {reason}, or shards = 1")]
    NotShardable {
        /// Name of the table.
        table: String,
        /// The number asked for.
        shards: u32,
        /// What stands in the way, and what would not.
        reason: String,
    },
    /// The rate limiter could not work.
    #[error("rate limiter of table {table:?}: {source}")]
    RateLimiter {
        /// Name of the table.
        table: String,
        /// The limiter's reason.
        source: RateLimiterError,
    },
}

impl TableConfig {
    /// A table of the default rules: uniform sampling, the oldest item leaves, one million items.
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
        }
    }

    /// A table that hands out every item once, the oldest first, and blocks inserts while it is full.
    pub fn queue(name: impl Into<String>, max_size: u32) -> Self {
        Self::new(name)
            .sampler(SelectorKind::Fifo)
            .remover(SelectorKind::Fifo)
            .max_size(u64::from(max_size))
            .max_times_sampled(1)
            .rate_limiter(RateLimiterConfig::queue(max_size))
    }

    /// A table that hands out every item once, the newest first, and blocks inserts while it is full.
    pub fn stack(name: impl Into<String>, max_size: u32) -> Self {
        Self::queue(name, max_size).sampler(SelectorKind::Lifo).remover(SelectorKind::Lifo)
    }

    /// Sets which item is sampled next.
    pub fn sampler(mut self, sampler: SelectorKind) -> Self {
        self.sampler = sampler;
        self
    }

    /// Sets which item leaves when the table holds more than `max_size` or `max_bytes`.
    pub fn remover(mut self, remover: SelectorKind) -> Self {
        self.remover = remover;
        self
    }

    /// Sets the number of items that the table keeps.
    pub fn max_size(mut self, max_size: u64) -> Self {
        self.max_size = max_size;
        self
    }

    /// Sets the bytes that the table keeps.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// Sets after how many samples an item is deleted; below 1: never.
    pub fn max_times_sampled(mut self, max_times_sampled: i32) -> Self {
        self.max_times_sampled = max_times_sampled;
        self
    }

    /// Sets how far samples and inserts may run apart.
    pub fn rate_limiter(mut self, rate_limiter: RateLimiterConfig) -> Self {
        self.rate_limiter = rate_limiter;
        self
    }

    /// Sets what the items' columns look like.
    pub fn signature(mut self, signature: impl Into<Arc<Signature>>) -> Self {
        self.signature = Some(signature.into());
        self
    }

    /// Sets into how many parts an engine divides the table, so that inserts on several threads do not wait for each other.
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Checks the rules.
    ///
    /// # Errors
    /// An empty name; a `max_size` of 0 or above [`MAX_TABLE_SIZE`]; a `max_bytes` of 0; an exponent that is not finite; bounds that
    /// [`RateLimiterConfig::validate`] refuses; shards beyond [`MAX_SHARDS`] or `max_size`, or with rules that only a table in one
    /// piece can keep: another sampler than `Uniform` and `Prioritized`, a rate limiter that looks at more than
    /// the size, `max_bytes`.
    ///
    /// ```
    /// use relive_table::TableConfig;
    /// let error = TableConfig::new("replay").max_size(0).validate().unwrap_err();
    /// assert_eq!(error.to_string(), "max_size of table \"replay\" must be from 1 to 2147483647, it is 0");
    /// ```
    pub fn validate(&self) -> Result<(), ConfigError> {
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

    /// The error of a table that cannot be divided for this reason.
    pub fn not_shardable(&self, reason: String) -> ConfigError {
        ConfigError::NotShardable { table: self.name.clone(), shards: self.shards, reason }
    }

    /// Why the table cannot be divided, and what would help.
    fn obstacle_to_shards(&self) -> Option<String> {
        if self.max_size < u64::from(self.shards) {
            let max_size = self.max_size;
            return Some(format!("max_size is {max_size}, and each needs room for an item; raise max_size"));
        }
        if !matches!(self.sampler, SelectorKind::Uniform | SelectorKind::Prioritized { .. }) {
            let sampler = self.sampler;
            return Some(format!(
                "its sampler is {sampler}, which looks at all items; take Uniform or Prioritized"
            ));
        }
        let RateLimiterConfig { min_diff, max_diff, .. } = self.rate_limiter;
        if min_diff > f64::MIN || max_diff < f64::MAX {
            return Some(format!(
                "its rate limiter counts all inserts and samples (min_diff is {min_diff:?}, max_diff {max_diff:?}); take \
                 MinSize"
            ));
        }
        let max_bytes = self.max_bytes?;
        Some(format!(
            "max_bytes is {max_bytes}, a bound on all of them; take max_size, or max_bytes of the server"
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
        assert_eq!(text(TableConfig::new("")), "a table needs a name that is not empty");
        let long = text(TableConfig::new("x".repeat(1025)));
        assert!(long.contains("at most 1024 bytes") && long.ends_with("has 1025"), "{long}");
        let told = "the name of a table cannot have control characters, \"a\\u{1b}\" has";
        assert_eq!(text(TableConfig::new("a\u{1b}")), told);
        let large = TableConfig::new("t").max_size(1 << 31);
        assert_eq!(text(large), "max_size of table \"t\" must be from 1 to 2147483647, it is 2147483648");
        let empty = TableConfig::new("t").max_bytes(0);
        assert_eq!(
            text(empty),
            "max_bytes of table \"t\" must be at least 1, it is 0; leave it out for a table without this bound"
        );
        let nan = TableConfig::new("t").remover(SelectorKind::Prioritized { exponent: f64::NAN });
        assert_eq!(
            text(nan),
            "the priority exponent of the remover of table \"t\" must be finite, it is NaN"
        );
        assert_eq!(
            text(TableConfig::new("t").shards(65)),
            "shards of table \"t\" must be from 1 to 64, it is 65"
        );
        let limiter = RateLimiterConfig { min_size_to_sample: 0, ..RateLimiterConfig::queue(1) };
        assert_eq!(
            text(TableConfig::new("t").rate_limiter(limiter)),
            "rate limiter of table \"t\": min_size_to_sample must be at least 1, it is 0"
        );
    }

    #[test]
    fn what_shards_cannot_do_is_told_with_what_to_do_instead() {
        let told = |config: TableConfig| config.validate().unwrap_err().to_string();
        assert_eq!(
            told(TableConfig::new("t").max_size(3).shards(4)),
            "table \"t\" cannot have 4 shards: max_size is 3, and each needs room for an item; raise max_size, or shards = 1"
        );
        assert_eq!(
            told(TableConfig::new("t").sampler(SelectorKind::Fifo).shards(2)),
            "table \"t\" cannot have 2 shards: its sampler is Fifo, which looks at all items; take Uniform or \
             Prioritized, or shards = 1"
        );
        assert_eq!(
            told(TableConfig::new("t").rate_limiter(RateLimiterConfig::queue(5)).shards(2)),
            "table \"t\" cannot have 2 shards: its rate limiter counts all inserts and samples (min_diff is 0.0, \
             max_diff 5.0); take MinSize, or shards = 1"
        );
        assert_eq!(
            told(TableConfig::new("t").max_bytes(7).shards(2)),
            "table \"t\" cannot have 2 shards: max_bytes is 7, a bound on all of them; take max_size, or max_bytes \
             of the server, or shards = 1"
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
