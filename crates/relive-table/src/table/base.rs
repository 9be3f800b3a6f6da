//! What a table is made of.

use std::sync::Arc;

use relive_tensor::Ledger;

use crate::config::{ConfigError, TableConfig};
use crate::extension::{Extension, Requests};
use crate::limiter::RateLimiter;
use crate::selector::PriorityError;
use crate::storage::{Common, Contents, Counters, Sequence, State};

/// A set of items with a rule for reading, a rule for removing and a rate limiter.
///
/// Operations check nothing about waiting: whoever inserts asks [`can_insert`](Self::can_insert) first. An
/// operation that returns an error has changed nothing.
pub struct Table {
    pub(super) state: State,
    pub(super) extensions: Vec<Box<dyn Extension>>,
    /// What the extensions asked for and has not been done yet.
    pub(super) requests: Requests,
}

impl Table {
    /// An empty table with a ledger of its own.
    ///
    /// # Errors
    /// Rules that [`TableConfig::validate`] refuses.
    pub fn new(config: TableConfig, extensions: Vec<Box<dyn Extension>>) -> Result<Self, ConfigError> {
        Self::in_ledger(config, extensions, Arc::default())
    }

    /// An empty table whose items' chunks are counted in `ledger`. Tables of one ledger know what they share.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_ledger(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        ledger: Arc<Ledger>,
    ) -> Result<Self, ConfigError> {
        let contents = Contents::new(&config, &ledger);
        Self::of(config, extensions, ledger, contents, Sequence::default())
    }

    /// One of several tables that together are one: the shard number `shard`, from 0 on. Its rules are its own, its
    /// `max_size` is its share.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn shard(config: TableConfig, common: &Common, shard: usize) -> Result<Self, ConfigError> {
        let contents = Contents::of_shard(&config, common, shard);
        Self::of(config, Vec::new(), Arc::clone(&common.ledger), contents, common.sequence())
    }

    fn of(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        ledger: Arc<Ledger>,
        contents: Contents,
        sequence: Sequence,
    ) -> Result<Self, ConfigError> {
        config.validate_ranges()?;
        let limiter = RateLimiter::new(config.rate_limiter)
            .map_err(|source| ConfigError::RateLimiter { table: config.name.clone(), source })?;
        let (config, counters) = (Arc::new(config), Counters::default());
        let state = State {
            config,
            limiter,
            contents,
            counters,
            sequence,
            is_shrinking: false,
            is_limit_changed: false,
            capture: None,
            ledger,
        };
        Ok(Self { state, extensions, requests: Requests::default() })
    }

    /// Checks a priority without an item, as far as that goes: the sum of all weights is looked at by the insert
    /// or the update itself.
    ///
    /// # Errors
    /// What [`SelectorKind::check_priority`](crate::SelectorKind::check_priority) of the sampler or the remover
    /// says.
    pub fn check_priority(&self, priority: f64) -> Result<(), PriorityError> {
        self.state.config.sampler.check_priority(priority)?;
        self.state.config.remover.check_priority(priority)
    }
}
