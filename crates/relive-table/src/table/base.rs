//! The table type and its constructors.

use std::sync::Arc;

use relive_tensor::Ledger;

use crate::config::{ConfigError, TableConfig};
use crate::extension::{Extension, Requests};
use crate::limiter::RateLimiter;
use crate::selector::PriorityError;
use crate::storage::{Common, Contents, Counters, Sequence, State};

/// A set of items with a sampler, a remover and a rate limiter.
///
/// Operations never wait, and inserts do not consult the rate limiter: callers check [`can_insert`](Self::can_insert)
/// first. An operation that returns an error has changed nothing.
pub struct Table {
    pub(super) state: State,
    pub(super) extensions: Vec<Box<dyn Extension>>,
    /// Requests from extensions that have not been carried out yet.
    pub(super) requests: Requests,
}

impl Table {
    /// Creates an empty table with its own ledger.
    ///
    /// # Errors
    /// [`TableConfig::validate`] refuses the rules.
    pub fn new(config: TableConfig, extensions: Vec<Box<dyn Extension>>) -> Result<Self, ConfigError> {
        Self::in_ledger(config, extensions, Arc::default())
    }

    /// Creates an empty table whose chunks `ledger` counts. Tables with the same ledger can account for chunks that
    /// they share.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn in_ledger(
        config: TableConfig,
        extensions: Vec<Box<dyn Extension>>,
        ledger: Arc<Ledger>,
    ) -> Result<Self, ConfigError> {
        let contents = Contents::new(&config, &ledger);
        Self::of(config, extensions, ledger, contents, Sequence::default())
    }

    /// Creates shard number `shard`, from 0, of a divided table. `config` holds the rules of this shard; its `max_size`
    /// is the shard's share.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
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

    /// Validates a priority without an item. The sum of all weights is checked only by the insert or update itself.
    ///
    /// # Errors
    /// The errors of [`SelectorKind::check_priority`](crate::SelectorKind::check_priority) of the sampler and the
    /// remover.
    pub fn check_priority(&self, priority: f64) -> Result<(), PriorityError> {
        self.state.config.sampler.check_priority(priority)?;
        self.state.config.remover.check_priority(priority)
    }
}
