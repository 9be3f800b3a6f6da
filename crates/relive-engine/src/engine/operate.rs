//! Changes that operators make to a running engine.

use std::sync::Arc;

use relive_table::{Changed, LoggedChange, TableChange, TableConfig};

use super::builder::stream_of;
use super::differences::alterations;
use super::shared::Engine;
use crate::catalogue::TableHandle;
use crate::error::EngineError;
use crate::limits::EVICTIONS_PER_LOCK;
use crate::sync::wall_clock;
use crate::table::TableCore;

impl Engine {
    /// Changes the rules of the table `name` while it is in use, and serves the waiters that can proceed as a result.
    /// Makes either all of the changes or none of them. The rate limiter's cursor stays unchanged.
    ///
    /// If bounds shrink, the remover evicts the excess items before this function returns. It takes the lock once per
    /// thousand items, so that other operations can run between these portions. The log and [`changes`](Self::changes)
    /// name `who` as the author of the change.
    ///
    /// ```
    /// use relive_engine::Engine;
    /// use relive_table::{TableChange, TableConfig};
    ///
    /// let engine = Engine::builder().table(TableConfig::new("replay")).build()?;
    /// let changed = engine.change_table("replay", &TableChange::new().max_size(500), &"me".into())?;
    /// let change = &changed.changes[0];
    /// assert_eq!((&*change.what, &*change.old, &*change.new), ("max_size", "1000000", "500"));
    /// assert_eq!(engine.changes(), changed.changes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for rules that are out of range or a sharded table; `Closed`
    /// for a closed table.
    pub fn change_table(
        &self,
        name: &str,
        change: &TableChange,
        who: &Arc<str>,
    ) -> Result<Changed, EngineError> {
        let table = self.table(name)?;
        let Some(core) = table.only() else {
            return Err(EngineError::FixedRules { table: name.to_owned(), shards: table.config().shards });
        };
        let altered = core.change_rules(change)?;
        let logged = |(what, old, new)| self.log_change(who, name, what, old, new);
        let changes = altered.into_iter().map(logged).collect();
        let mut evicted = 0;
        loop {
            let left = core.shrink(EVICTIONS_PER_LOCK);
            evicted += left as u64;
            if left < EVICTIONS_PER_LOCK {
                return Ok(Changed { changes, evicted });
            }
            std::thread::yield_now();
        }
    }

    /// Adds an empty table. The server's configuration does not change: a restart restores the table from a checkpoint
    /// only if the table has also been added to the configuration.
    ///
    /// # Errors
    /// `InvalidArgument` for rules that are out of range or a name that another table has; `Exhausted` beyond
    /// [`MAX_TABLES`](crate::limits::MAX_TABLES); `Closed` once the engine is closed.
    pub fn add_table(&self, config: TableConfig, who: &Arc<str>) -> Result<(), EngineError> {
        let name = config.name.clone();
        let size = format!("at most {} items", config.max_size);
        config.validate().map_err(|source| EngineError::Rules { source })?;
        let rng = stream_of(&config, &mut self.seeds().lock());
        let table = TableHandle::empty(config, Vec::new(), rng, self.bound());
        let table = table.map_err(|source| EngineError::Rules { source })?;
        for core in self.disk_tier().map(|_| table.cores()).unwrap_or_default() {
            // The core is new, so its cell is empty.
            let _ = self.disk_tier().map(|tier| core.shared.disk_tier.set(Arc::clone(tier)));
        }
        self.catalogue().add(table)?;
        self.log_change(who, &name, "table", "none".to_owned(), size);
        Ok(())
    }

    /// Drops a table with all its items. Waiting and later operations on it fail. Its chunks are freed before this
    /// returns, except those that are still in use elsewhere. The program's allocator then returns the memory to the
    /// system.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `InvalidArgument` for the last table.
    pub fn drop_table(&self, name: &str, who: &Arc<str>) -> Result<(), EngineError> {
        let table = self.catalogue().remove(name)?;
        let items = table.cores().iter().map(|core| core.info().current_size).sum();
        table.end(&EngineError::Dropped { table: name.to_owned() });
        table.cores().iter().for_each(TableCore::empty);
        self.log_change(who, name, "table", items_of(items), "none".to_owned());
        Ok(())
    }

    /// [Resets](TableHandle::reset) a table and logs the reset.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Closed` for a closed one.
    pub fn reset_table(&self, name: &str, who: &Arc<str>) -> Result<(), EngineError> {
        let table = self.table(name)?;
        let items = table.info().current_size;
        table.reset()?;
        self.log_change(who, name, "items", items_of(items), items_of(0));
        Ok(())
    }

    /// Returns the latest changes to tables, oldest first; at most
    /// [`MAX_LISTED_CHANGES`](crate::limits::MAX_LISTED_CHANGES).
    #[must_use]
    pub fn changes(&self) -> Vec<LoggedChange> {
        self.change_log().list()
    }

    fn log_change(
        &self,
        who: &Arc<str>,
        table: &str,
        what: &'static str,
        old: String,
        new: String,
    ) -> LoggedChange {
        let (who, table) = (who.to_string(), table.to_owned());
        let change = LoggedChange { at: wall_clock(), who, table, what: what.to_owned(), old, new };
        self.change_log().add(change.clone());
        change
    }
}

fn items_of(count: u64) -> String {
    format!("{count} items")
}

impl TableCore {
    /// Returns the changes: each rule with its old and its new value.
    fn change_rules(&self, change: &TableChange) -> Result<Vec<(&'static str, String, String)>, EngineError> {
        self.change(|it| {
            it.check_open()?;
            let table = &mut it.state.table;
            let before = (Arc::clone(table.config()), table.paused());
            table.change(change).map_err(|source| EngineError::Rules { source })?;
            Ok(alterations(&before.0, before.1, table.config(), table.paused()))
        })
    }

    fn shrink(&self, most: usize) -> usize {
        self.change(|it| it.state.table.shrink(most, &mut it.state.rng, &mut it.after.freed))
    }

    /// Drops the items of a closed table.
    fn empty(&self) {
        self.change(|it| it.state.table.reset(&mut it.after.freed));
    }
}
