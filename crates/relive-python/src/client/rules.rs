//! A client's cache of the rules of its server's tables.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use relive_client::Client;

use crate::error::OrRaise;
use crate::interpreter::lock::Brief;
use crate::interpreter::wait;

/// How long rules stay cached. They can change at any time.
const CACHE_LIFETIME: Duration = Duration::from_secs(2);

/// A cache of the rules of all tables.
#[derive(Default)]
pub(crate) struct Rules(Brief<Option<CachedRules>>);

struct CachedRules {
    fetched_at: Instant,
    /// For each table: whether its items are never deleted by sampling.
    keep_sampled_items: HashMap<String, bool>,
}

impl Rules {
    /// Returns whether sampling an item never deletes it. For an unknown table, the call that requests its samples
    /// reports the error.
    pub(crate) fn keep_sampled_items(
        &self,
        py: Python<'_>,
        client: &Client,
        table: &str,
        timeout: Duration,
    ) -> PyResult<bool> {
        let known = self.0.with(|known| known.as_ref().and_then(|known| known.keep_sampled_items(table)));
        if let Some(keep) = known {
            return Ok(keep);
        }
        let info = wait::wait(py, "sample", client.with_timeout(timeout).server_info())?.or_raise(py)?;
        let rules =
            info.tables.iter().map(|table| (table.config.name.clone(), table.config.max_times_sampled < 1));
        let known = CachedRules { fetched_at: Instant::now(), keep_sampled_items: rules.collect() };
        let keep = known.keep_sampled_items(table).unwrap_or(false);
        self.0.replace(Some(known));
        Ok(keep)
    }

    /// Clears the cache after a change to tables, whether or not the change succeeded.
    pub(crate) fn invalidate_after<T>(&self, outcome: T) -> T {
        self.0.take();
        outcome
    }
}

impl CachedRules {
    fn keep_sampled_items(&self, table: &str) -> Option<bool> {
        let is_known = self.fetched_at.elapsed() < CACHE_LIFETIME;
        self.keep_sampled_items.get(table).copied().filter(|_| is_known)
    }
}
