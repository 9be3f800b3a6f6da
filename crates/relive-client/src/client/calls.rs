//! Calls of one request and one answer.

use relive_connection::{Result, ServerInfo, ServerStatus, Waits};
use relive_fleet::Target;
use relive_table::CheckpointStatus;

use super::Client;

impl Client {
    /// The tables of the server. Waits for a server to be there.
    ///
    /// # Errors
    /// `Timeout` when no server answers in the client's time.
    pub async fn server_info(&self) -> Result<ServerInfo> {
        self.backend.server_info("server_info").await
    }

    /// What the server holds and who waits for what. Only Relive's servers know.
    ///
    /// # Errors
    /// `Unimplemented` from a dm-reverb server, `Timeout` when no server answers in the client's time.
    pub async fn status(&self) -> Result<ServerStatus> {
        match self.backend.target() {
            Target::Server(server) => server.status(self.timeout()).await,
            Target::Process(local) => Ok(local.status()),
            Target::Fleet(fleet) => fleet.status(self.timeout()).await,
        }
    }

    /// What samples and inserts of `table` wait for now, for a caller who wonders why his call takes so long. In the
    /// same process the answer is there at once.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Timeout` after the client's time.
    pub async fn waits(&self, table: &str) -> Result<Waits> {
        match self.backend.target() {
            Target::Server(server) => server.waits(table, self.timeout()).await,
            Target::Process(local) => local.waits(table),
            Target::Fleet(fleet) => fleet.waits(table, self.timeout()).await,
        }
    }

    /// Sets the priorities of items, by their keys; keys that the table does not have are ignored.
    ///
    /// # Errors
    /// As [`mutate_priorities`](Self::mutate_priorities).
    pub async fn update_priorities(&self, table: &str, priorities: &[(u64, f64)]) -> Result<()> {
        self.mutate_priorities(table, priorities, &[]).await
    }

    /// Deletes items by their keys; keys that the table does not have are ignored.
    ///
    /// # Errors
    /// As [`mutate_priorities`](Self::mutate_priorities).
    pub async fn delete_items(&self, table: &str, keys: &[u64]) -> Result<()> {
        self.mutate_priorities(table, &[], keys).await
    }

    /// In one call sets priorities (`updates`: key and priority) and deletes items (`deletes`: keys) of `table`. Keys
    /// that the table does not have are ignored.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `InvalidArgument` for a priority that the table's selectors do not take,
    /// `Timeout` after the client's time.
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

    /// Removes all items of `table` and sets its counters to 0. It is asked for once: a server that comes back may
    /// have loaded items that are not to be removed.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unavailable` if the connection ends before the answer is there (the table
    /// may be empty then or not), `Timeout` after the client's time.
    pub async fn reset(&self, table: &str) -> Result<()> {
        match self.backend.target() {
            Target::Server(server) => server.reset(table, self.timeout()).await,
            Target::Process(local) => local.reset(table),
            Target::Fleet(fleet) => fleet.reset(table, self.timeout()).await,
        }
    }

    /// Makes the server write a checkpoint; gives its path on the server's machine, or its URL. It holds everything
    /// that was confirmed before. Calls at the same time share checkpoints; a call that ends early ends none.
    ///
    /// # Errors
    /// `InvalidArgument` from a server or an engine without a checkpointer, `Internal` if the checkpoint cannot be
    /// written, `Unavailable` at once if no server is there, `Timeout` after the client's time.
    pub async fn checkpoint(&self) -> Result<String> {
        match self.backend.target() {
            Target::Server(server) => server.checkpoint(self.timeout()).await,
            Target::Process(local) => local.checkpoint(self.timeout()).await,
            Target::Fleet(fleet) => fleet.checkpoint(self.timeout()).await,
        }
    }

    /// What becomes of checkpoints: what is being written and how far it is, what was written last, when the next is
    /// due. Only Relive's servers know.
    ///
    /// # Errors
    /// As [`status`](Self::status), of which this is a part.
    pub async fn checkpoint_status(&self) -> Result<CheckpointStatus> {
        match self.backend.target() {
            Target::Server(server) => server.checkpoint_status(self.timeout()).await,
            Target::Process(local) => Ok(local.engine().checkpoint_status()),
            Target::Fleet(fleet) => fleet.checkpoint_status(self.timeout()).await,
        }
    }
}
