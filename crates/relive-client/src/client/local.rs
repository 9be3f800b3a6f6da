//! The connection to tables of this process: calls without messages.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use relive_engine::{Engine, Mutation, TableHandle};
use relive_tensor::Nest;

use super::{ServerInfo, ServerStatus, StateId};
use crate::{Error, Result};

/// The tables of an engine.
pub(crate) struct Local {
    engine: Engine,
    /// How waiters of this client are called.
    who: Arc<str>,
    started: Instant,
    state_id: StateId,
}

impl Local {
    pub(super) fn new(engine: Engine) -> Local {
        let who = format!("process {}", std::process::id()).into();
        let state_id = state_id(&engine);
        Local { engine, who, started: Instant::now(), state_id }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How waiters of this client are called.
    pub(crate) fn who(&self) -> &Arc<str> {
        &self.who
    }

    /// The table `name`, or the error that a server would give for `operation`.
    pub(crate) fn table(&self, operation: &str, name: &str) -> Result<TableHandle> {
        self.engine.table(name).map_err(|error| Error::from_engine(operation, error))
    }

    pub(super) fn info(&self) -> ServerInfo {
        let tables = self.engine.tables().iter().map(TableHandle::info).collect();
        let StateId { high, low } = self.state_id;
        let low = low.wrapping_add(self.engine.tables_version());
        ServerInfo::new(StateId { high, low }, tables)
    }

    pub(super) fn status(&self) -> ServerStatus {
        ServerStatus::of_engine(&self.engine, self.started.elapsed())
    }

    /// Deletes come before updates, as on a server: a key in both lists is gone.
    pub(super) fn mutate(&self, table: &str, updates: &[(u64, f64)], deletes: &[u64]) -> Result<()> {
        let operation = "mutate_priorities";
        let deletes = deletes.iter().map(|&key| Mutation::Delete { key });
        let updates = updates.iter().map(|&(key, priority)| Mutation::Update { key, priority });
        let done = self.table(operation, table)?.mutate(deletes.chain(updates));
        done.map_err(|error| Error::from_engine(operation, error))
    }

    pub(crate) fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        let named = self.table("name_columns", table)?.name_columns(structure.clone());
        named.map_err(|error| Error::from_engine("name_columns", error))
    }

    pub(super) fn reset(&self, table: &str) -> Result<()> {
        self.engine.reset_table(table, &self.who).map_err(|error| Error::from_engine("reset", error))
    }
}

/// The same for every client of an engine: the process, and the engine in it by the one address that its clones share.
fn state_id(engine: &Engine) -> StateId {
    static PROCESS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let address = Arc::as_ptr(engine.ledger()).addr();
    StateId { high: PROCESS.hash_one(0_u8), low: PROCESS.hash_one(address) }
}
