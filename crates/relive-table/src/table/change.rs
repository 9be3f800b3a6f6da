//! Changes the rules of a table in use.

use std::sync::Arc;

use rand_core::Rng;

use crate::change::TableChange;
use crate::config::ConfigError;
use crate::limiter::Paused;
use crate::storage::Freed;
use crate::table::Table;

impl Table {
    /// Changes either all of the given rules or none of them. Counters and the rate limiter's cursor do not change.
    ///
    /// If bounds shrink, excess items remain in the table until [`shrink`](Self::shrink) evicts them, a portion at a
    /// time.
    ///
    /// # Errors
    /// [`TableConfig::validate`](crate::TableConfig::validate) refuses the rules. However, a table that could never be
    /// sampled may remain so. After an error, the table is unchanged.
    pub fn change(&mut self, change: &TableChange) -> Result<(), ConfigError> {
        let state = &mut self.state;
        let config = change.applied_to(&state.config);
        config.validate_ranges()?;
        if state.config.validate().is_ok() {
            config.validate()?;
        }
        let limited = state.limiter.set_config(config.rate_limiter);
        limited.map_err(|source| ConfigError::RateLimiter { table: config.name.clone(), source })?;
        state.limiter.set_paused(change.paused(state.limiter.paused()));
        state.is_limit_changed |= change.max_times_sampled.is_some();
        state.config = Arc::new(config);
        state.is_shrinking = state.is_over();
        Ok(())
    }

    /// Evicts up to `most` of the items that exceed [changed](Self::change) bounds; the remover chooses them. Returns
    /// the number of evicted items. If this is below `most`, no excess items are left.
    pub fn shrink<R: Rng + ?Sized>(&mut self, most: usize, rng: &mut R, freed: &mut Freed) -> usize {
        let evicted = self.evict_excess(most, rng, freed).len();
        self.state.is_shrinking = self.state.is_over();
        evicted
    }

    /// Returns which operations are paused.
    pub fn paused(&self) -> Paused {
        self.state.limiter.paused()
    }
}
