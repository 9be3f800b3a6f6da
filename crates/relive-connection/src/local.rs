//! The connection to tables in this process: calls without messages.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use relive_engine::{Engine, Mutation, TableHandle};
use relive_table::{Changed, ItemStructure, TableChange, TableConfig};
use relive_tensor::Nest;

use crate::Result;
use crate::answer::{engine_error, timeout_error};
use crate::report::{ServerInfo, ServerStatus, StateId, Waits};
use crate::transport::Transport;
use crate::waiting::Deadline;

/// The tables of an engine. It has the same calls as a [`Connection`](crate::Connection); most of them do not wait.
#[derive(Clone)]
pub struct Local {
    engine: Engine,
    /// The name of this client among waiters.
    who: Arc<str>,
    started: Instant,
    state_id: StateId,
}

impl Local {
    /// Creates a connection to the tables of `engine`.
    pub fn new(engine: Engine) -> Local {
        let who = format!("process {}", std::process::id()).into();
        let state_id = state_id(&engine);
        Local { engine, who, started: Instant::now(), state_id }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the name of this client among waiters.
    pub fn who(&self) -> &Arc<str> {
        &self.who
    }

    /// Returns the table `name`.
    ///
    /// # Errors
    /// `NotFound`, as a server would report it for `operation`.
    pub fn table(&self, operation: &str, name: &str) -> Result<TableHandle> {
        self.engine.table(name).map_err(|error| engine_error(operation, error))
    }

    /// Returns the tables.
    pub fn server_info(&self) -> ServerInfo {
        let StateId { high, low } = self.state_id;
        // The version is read first: an old list with a new version would count as current.
        let low = low.wrapping_add(self.engine.tables_version());
        let tables = self.engine.tables().iter().map(TableHandle::info).collect();
        ServerInfo::new(StateId { high, low }, tables)
    }

    /// Returns the contents of the tables and their waiting calls, with the reason for each wait.
    pub fn status(&self) -> ServerStatus {
        ServerStatus::of_engine(&self.engine, self.started.elapsed())
    }

    /// Returns the conditions that samples and inserts of `table` are waiting for.
    ///
    /// # Errors
    /// `NotFound` for an unknown table.
    pub fn waits(&self, table: &str) -> Result<Waits> {
        Ok(Waits::of_table(&self.table("waits", table)?))
    }

    /// Sets priorities and deletes items. As on a server, deletes are applied before updates, so a key that is in both
    /// lists is deleted.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for a priority that the table refuses.
    pub fn mutate_priorities(&self, table: &str, updates: &[(u64, f64)], deletes: &[u64]) -> Result<()> {
        let operation = "mutate_priorities";
        let deletes = deletes.iter().map(|&key| Mutation::Delete { key });
        let updates = updates.iter().map(|&(key, priority)| Mutation::Update { key, priority });
        let done = self.table(operation, table)?.mutate(deletes.chain(updates));
        done.map_err(|error| engine_error(operation, error))
    }

    /// Removes all items of `table` and sets its counters to 0.
    ///
    /// # Errors
    /// `NotFound` for an unknown table.
    pub fn reset(&self, table: &str) -> Result<()> {
        self.engine.reset_table(table, &self.who).map_err(|error| engine_error("reset", error))
    }

    /// Writes a checkpoint, and returns its path or URL.
    ///
    /// # Errors
    /// `InvalidArgument` for an engine without a checkpointer; `Internal` if the checkpoint cannot be written;
    /// `Timeout` if it is not written within `timeout`.
    pub async fn checkpoint(&self, timeout: Duration) -> Result<String> {
        let operation = "checkpoint";
        let refused = |error| engine_error(operation, error);
        let pending = self.engine.request_checkpoint().map_err(refused)?;
        match Deadline::after(timeout).run(pending).await {
            None => Err(timeout_error(operation, timeout, Transport::InProcess.text(), None)),
            Some(saved) => Ok(saved.map_err(refused)?.location),
        }
    }

    /// Proposes the structure of the items of `table`. Returns whether the table keeps this structure.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for a structure that has no columns or exceeds the limits.
    pub fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        let named = self.table("name_columns", table)?.name_columns(structure.clone());
        named.map_err(|error| engine_error("name_columns", error))
    }

    /// Returns the structure of all items of `table`, which is `structure` unless the table already had another one.
    ///
    /// # Errors
    /// The errors of [`name_columns`](Self::name_columns).
    pub fn agree_on_columns(&self, table: &str, structure: &Nest<()>) -> Result<Arc<ItemStructure>> {
        let agreed = self.table("create_item", table)?.agree_on_columns(structure.clone());
        agreed.map_err(|error| engine_error("create_item", error))
    }

    /// Returns the structure of the items of `table`, if it is known.
    ///
    /// # Errors
    /// `NotFound` for an unknown table.
    pub fn column_names(&self, table: &str) -> Result<Option<Nest<()>>> {
        Ok(self.table("column_names", table)?.columns().as_deref().cloned())
    }

    /// Changes the rules of `table`. Makes either all of the changes or none of them.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for rules that are out of range.
    pub fn change_table(&self, table: &str, change: &TableChange) -> Result<Changed> {
        let changed = self.engine.change_table(table, change, &self.who);
        changed.map_err(|error| engine_error("change_table", error))
    }

    /// Adds an empty table.
    ///
    /// # Errors
    /// `InvalidArgument` for rules that are out of range or a name that already exists.
    pub fn add_table(&self, config: TableConfig) -> Result<()> {
        self.engine.add_table(config, &self.who).map_err(|error| engine_error("add_table", error))
    }

    /// Drops `table` with all its items.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for the only table.
    pub fn drop_table(&self, table: &str) -> Result<()> {
        self.engine.drop_table(table, &self.who).map_err(|error| engine_error("drop_table", error))
    }
}

/// Returns an id that is the same for every client of an engine. It consists of the process, and the address that the
/// engine's clones share.
fn state_id(engine: &Engine) -> StateId {
    static PROCESS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let address = Arc::as_ptr(engine.ledger()).addr();
    StateId { high: PROCESS.hash_one(0_u8), low: PROCESS.hash_one(address) }
}
