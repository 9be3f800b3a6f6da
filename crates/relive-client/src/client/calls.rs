//! Calls with one request and one response.

use relive_connection::{Connection, Result, ServerInfo, ServerStatus, Waits};
use relive_fleet::Target;
use relive_reader::UnaryCall;
use relive_table::CheckpointStatus;

use super::Client;

impl Client {
    /// Returns the server's tables. Waits until a server answers.
    ///
    /// # Errors
    /// `Timeout` if no server answers within the client's timeout.
    pub async fn server_info(&self) -> Result<ServerInfo> {
        self.backend.server_info("server_info").await
    }

    /// Returns the server's contents, and its waiting calls with the reason for each wait. Only Relive servers support
    /// this call.
    ///
    /// # Errors
    /// `Unimplemented` from a dm-reverb server; `Timeout` if no server answers within the client's timeout.
    pub async fn status(&self) -> Result<ServerStatus> {
        match self.backend.target() {
            Target::Server(server) => server.status(self.timeout()).await,
            Target::Process(local) => Ok(local.status()),
            Target::Fleet(fleet) => fleet.status(self.timeout()).await,
        }
    }

    /// Returns the conditions that samples and inserts of `table` are waiting for, which explain why a call takes a
    /// long time. For tables in the same process, the result is available immediately.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Unimplemented` from a dm-reverb server; `Timeout` after the client's timeout.
    pub async fn waits(&self, table: &str) -> Result<Waits> {
        match self.backend.target() {
            Target::Server(server) => server.waits(table, self.timeout()).await,
            Target::Process(local) => local.waits(table),
            Target::Fleet(fleet) => fleet.waits(table, self.timeout()).await,
        }
    }

    /// Sets the priorities of items by key. Unknown keys are ignored.
    ///
    /// # Errors
    /// The errors of [`mutate_priorities`](Self::mutate_priorities).
    pub async fn update_priorities(&self, table: &str, priorities: &[(u64, f64)]) -> Result<()> {
        self.mutate_priorities(table, priorities, &[]).await
    }

    /// Deletes items by key. Unknown keys are ignored.
    ///
    /// # Errors
    /// The errors of [`mutate_priorities`](Self::mutate_priorities).
    pub async fn delete_items(&self, table: &str, keys: &[u64]) -> Result<()> {
        self.mutate_priorities(table, &[], keys).await
    }

    /// Sets priorities (`updates`: key and priority) and deletes items (`deletes`: keys) of `table` in one call.
    /// Unknown keys are ignored.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for a priority that a selector of the table refuses;
    /// `Timeout` after the client's timeout.
    pub async fn mutate_priorities(
        &self,
        table: &str,
        updates: &[(u64, f64)],
        deletes: &[u64],
    ) -> Result<()> {
        let timeout = self.timeout();
        match self.backend.target() {
            Target::Server(server) => server.mutate_priorities(table, updates, deletes, timeout).await,
            Target::Process(local) => local.mutate_priorities(table, updates, deletes),
            Target::Fleet(fleet) => fleet.mutate_priorities(table, updates, deletes, timeout).await,
        }
    }

    /// Calls [`mutate_priorities`](Self::mutate_priorities) for a caller that blocks its thread. Returns `None` if the
    /// async call is the only way: to many servers, to tables in this process, or if the process cannot have another
    /// connection.
    pub fn mutate_priorities_call(
        &self,
        table: &str,
        updates: &[(u64, f64)],
        deletes: &[u64],
    ) -> Option<UnaryCall<()>> {
        let Target::Server(server) = self.backend.target() else { return None };
        let (table, timeout) = (table.to_owned(), self.timeout());
        let (updates, deletes) = (updates.to_vec(), deletes.to_vec());
        let ask = |server: Connection| async move {
            server.mutate_priorities(&table, &updates, &deletes, timeout).await
        };
        UnaryCall::new(server, &self.idle, ask).ok()
    }

    /// Removes all items of `table` and sets its counters to 0.
    ///
    /// The client sends this request once and does not retry it, because a server that has restarted may have loaded
    /// items that must not be removed.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Unavailable` if the connection ends before the response arrives (the table may
    /// or may not be empty); `Timeout` after the client's timeout.
    pub async fn reset(&self, table: &str) -> Result<()> {
        match self.backend.target() {
            Target::Server(server) => server.reset(table, self.timeout()).await,
            Target::Process(local) => local.reset(table),
            Target::Fleet(fleet) => fleet.reset(table, self.timeout()).await,
        }
    }

    /// Makes the server write a checkpoint, and returns its path on the server's machine or its URL.
    ///
    /// The checkpoint contains all items that were confirmed before the call. Concurrent calls share checkpoints.
    /// Abandoning a call does not abort the checkpoint.
    ///
    /// # Errors
    /// `InvalidArgument` from a server or an engine without a checkpointer; `Internal` if the checkpoint cannot be
    /// written; `Unavailable`, immediately, if no server answers; `Timeout` after the client's timeout.
    pub async fn checkpoint(&self) -> Result<String> {
        match self.backend.target() {
            Target::Server(server) => server.checkpoint(self.timeout()).await,
            Target::Process(local) => local.checkpoint(self.timeout()).await,
            Target::Fleet(fleet) => fleet.checkpoint(self.timeout()).await,
        }
    }

    /// Returns the state of checkpoints: the running one and its progress, the last one, and when the next one is due.
    /// Only Relive servers support this call.
    ///
    /// # Errors
    /// The errors of [`status`](Self::status), whose result also includes this state.
    pub async fn checkpoint_status(&self) -> Result<CheckpointStatus> {
        match self.backend.target() {
            Target::Server(server) => server.checkpoint_status(self.timeout()).await,
            Target::Process(local) => Ok(local.engine().checkpoint_status()),
            Target::Fleet(fleet) => fleet.checkpoint_status(self.timeout()).await,
        }
    }
}
