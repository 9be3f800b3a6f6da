//! Calls with one request and one response.

use std::time::Duration;

use relive_table::CheckpointStatus;
use relive_wire::checkpoint_status;
use relive_wire::reverb::{CheckpointRequest, KeyWithPriority, MutatePrioritiesRequest, ResetRequest};
use relive_wire::v1::{CheckpointStatusRequest, DescribeRequest};

use crate::answer::is_unsent;
use crate::connection::Connection;
use crate::report::{ServerStatus, Waits, unreadable_checkpoint};
use crate::{Error, ErrorKind, Result};

impl Connection {
    /// Returns the server's contents, and its waiting calls with the reason for each wait. Only Relive servers support
    /// this call.
    ///
    /// # Errors
    /// `Unimplemented` from a dm-reverb server; `Timeout` if no server answers within `timeout`.
    pub async fn status(&self, timeout: Duration) -> Result<ServerStatus> {
        let answer = self.call("status", timeout, || {
            let mut stub = self.replay_stub();
            async move { stub.describe(DescribeRequest {}).await }
        });
        ServerStatus::from_message(answer.await?)
    }

    /// Returns the conditions that samples and inserts of `table` are waiting for.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, and the errors of [`status`](Self::status).
    pub async fn waits(&self, table: &str, timeout: Duration) -> Result<Waits> {
        let status = self.status(timeout).await?;
        status.table(table).map(|table| table.waits.clone()).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("waits: Priority table {table} was not found"))
        })
    }

    /// Sets priorities (`updates`: key and priority) and deletes items (`deletes`: keys) of `table`. Unknown keys are
    /// ignored.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for a priority that a selector of the table refuses;
    /// `Timeout` if no server answers within `timeout`.
    pub async fn mutate_priorities(
        &self,
        table: &str,
        updates: &[(u64, f64)],
        deletes: &[u64],
        timeout: Duration,
    ) -> Result<()> {
        let request = MutatePrioritiesRequest {
            table: table.to_owned(),
            updates: updates.iter().map(|&(key, priority)| KeyWithPriority { key, priority }).collect(),
            delete_keys: deletes.to_vec(),
        };
        let answer = self.call("mutate_priorities", timeout, || {
            let (mut stub, request) = (self.stub(), request.clone());
            async move { stub.mutate_priorities(request).await }
        });
        answer.await.map(drop)
    }

    /// Removes all items of `table` and sets its counters to 0. The client sends this request once and does not retry
    /// it, because a server that has restarted may have loaded items that must not be removed.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Unavailable` if the connection ends before the response arrives (the table may
    /// or may not be empty); `Timeout` if no server answers within `timeout`.
    pub async fn reset(&self, table: &str, timeout: Duration) -> Result<()> {
        let request = ResetRequest { table: table.to_owned() };
        let reset = || {
            let (mut stub, request) = (self.stub(), request.clone());
            async move { stub.reset(request).await }
        };
        self.call_while("reset", timeout, is_unsent, reset).await?;
        self.shared.remembered.forget(table);
        Ok(())
    }

    /// Makes the server write a checkpoint, and returns its path on the server's machine or its URL.
    ///
    /// # Errors
    /// `InvalidArgument` from a server without a checkpointer; `Internal` if the checkpoint cannot be written;
    /// `Unavailable`, immediately, if no server answers; `Timeout` if the server does not respond within `timeout`.
    pub async fn checkpoint(&self, timeout: Duration) -> Result<String> {
        let checkpoint = || {
            let mut stub = self.stub();
            async move { stub.checkpoint(CheckpointRequest {}).await }
        };
        Ok(self.call_while("checkpoint", timeout, |_| false, checkpoint).await?.checkpoint_path)
    }

    /// Returns the state of checkpoints, which is part of [`status`](Self::status).
    ///
    /// # Errors
    /// The errors of [`status`](Self::status).
    pub async fn checkpoint_status(&self, timeout: Duration) -> Result<CheckpointStatus> {
        let answer = self.call("checkpoint_status", timeout, || {
            let mut stub = self.replay_stub();
            async move { stub.checkpoint_status(CheckpointStatusRequest {}).await }
        });
        let status = answer.await?.status.unwrap_or_default();
        checkpoint_status::from_wire(status).map_err(unreadable_checkpoint)
    }
}
