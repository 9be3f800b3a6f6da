//! The rules of a table that can change while it is in use.

use crate::config::TableConfig;
use crate::limiter::{Paused, RateLimiterConfig};
use crate::time::Timestamp;

/// Changes to some rules of a table, applied together while the table is in use. Unset rules stay as they are.
///
/// ```
/// use relive_table::{TableChange, TableConfig};
/// let change = TableChange::new().max_size(500).pause_inserts(true);
/// let config = change.applied_to(&TableConfig::new("replay"));
/// assert_eq!((config.max_size, config.max_times_sampled), (500, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "a change has no effect until it is applied to a table"]
pub struct TableChange {
    /// The largest number of items. If the new bound is smaller, the remover evicts the excess items.
    pub max_size: Option<u64>,
    /// The maximum number of bytes. `Some(None)` removes the bound.
    pub max_bytes: Option<Option<u64>>,
    /// The number of samples after which an item is removed. An item that has already been sampled that many times is
    /// removed when it is next sampled.
    pub max_times_sampled: Option<i32>,
    /// The target number of samples per inserted item. Applies only to later inserts; see
    /// [`RateLimiter::set_config`](crate::RateLimiter::set_config).
    pub samples_per_insert: Option<f64>,
    /// The number of items that the table must hold before it can be sampled.
    pub min_size_to_sample: Option<i64>,
    /// The lowest cursor that is permitted after a sample.
    pub min_diff: Option<f64>,
    /// The highest cursor that is permitted after an insert.
    pub max_diff: Option<f64>,
    /// Whether inserts are paused, regardless of the rate limiter.
    pub pause_inserts: Option<bool>,
    /// Whether samples are paused, regardless of the rate limiter.
    pub pause_samples: Option<bool>,
}

/// A logged change to a table in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    /// The time of the change, according to the server's clock.
    pub at: Timestamp,
    /// The origin of the request: the address of a peer, or a process.
    pub who: String,
    /// The name of the table.
    pub table: String,
    /// The object that was changed: a rule, by its name in configurations, or one of `inserts`, `samples`, `table`,
    /// `items`.
    pub what: String,
    /// The value before.
    pub old: String,
    /// The value after.
    pub new: String,
}

/// The effect of a change to a table's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The rules that changed.
    pub changes: Vec<LoggedChange>,
    /// The number of items that were evicted because of smaller bounds.
    pub evicted: u64,
}

impl TableChange {
    /// Creates an empty change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest number of items.
    pub fn max_size(mut self, max_size: u64) -> Self {
        self.max_size = Some(max_size);
        self
    }

    /// Sets the number of bytes that the table keeps, or removes the bound.
    pub fn max_bytes(mut self, max_bytes: impl Into<Option<u64>>) -> Self {
        self.max_bytes = Some(max_bytes.into());
        self
    }

    /// Sets the number of samples after which an item is removed. If it is below 1, items are never removed.
    pub fn max_times_sampled(mut self, max_times_sampled: i32) -> Self {
        self.max_times_sampled = Some(max_times_sampled);
        self
    }

    /// Sets all four bounds of the rate limiter.
    pub fn rate_limiter(mut self, limiter: RateLimiterConfig) -> Self {
        let RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff } = limiter;
        self.samples_per_insert = Some(samples_per_insert);
        self.min_size_to_sample = Some(min_size_to_sample);
        self.min_diff = Some(min_diff);
        self.max_diff = Some(max_diff);
        self
    }

    /// Pauses or resumes inserts.
    pub fn pause_inserts(mut self, pause: bool) -> Self {
        self.pause_inserts = Some(pause);
        self
    }

    /// Pauses or resumes samples.
    pub fn pause_samples(mut self, pause: bool) -> Self {
        self.pause_samples = Some(pause);
        self
    }

    /// Returns whether no rule is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `config` with these changes, without validating it.
    pub fn applied_to(&self, config: &TableConfig) -> TableConfig {
        let (limiter, mut changed) = (config.rate_limiter, config.clone());
        changed.max_size = self.max_size.unwrap_or(config.max_size);
        changed.max_bytes = self.max_bytes.unwrap_or(config.max_bytes);
        changed.max_times_sampled = self.max_times_sampled.unwrap_or(config.max_times_sampled);
        changed.rate_limiter = RateLimiterConfig {
            samples_per_insert: self.samples_per_insert.unwrap_or(limiter.samples_per_insert),
            min_size_to_sample: self.min_size_to_sample.unwrap_or(limiter.min_size_to_sample),
            min_diff: self.min_diff.unwrap_or(limiter.min_diff),
            max_diff: self.max_diff.unwrap_or(limiter.max_diff),
        };
        changed
    }

    /// Returns which operations are paused after these changes.
    pub fn paused(&self, before: Paused) -> Paused {
        Paused {
            inserts: self.pause_inserts.unwrap_or(before.inserts),
            samples: self.pause_samples.unwrap_or(before.samples),
        }
    }
}
