//! Calls of one request and one answer.

use std::future::Future;

use relive_engine::Engine;
use relive_table::CheckpointStatus;
use relive_wire::checkpoint_status;
use relive_wire::reverb::{
    CheckpointRequest, KeyWithPriority, MutatePrioritiesRequest, ResetRequest, ServerInfoRequest,
};
use relive_wire::v1::{CheckpointStatusRequest, DescribeRequest};
use tokio::time::{Instant, sleep};
use tonic::{Response, Status};

use super::status::senseless_checkpoint;
use super::{Client, Connection, ServerInfo, ServerStatus};
use crate::backoff::Backoff;
use crate::deadline::Deadline;
use crate::error::{is_unanswered, is_unsent};
use crate::{Error, ErrorKind, Result};

impl Client {
    /// The tables of the server. Waits for a server to be there.
    ///
    /// # Errors
    /// `Timeout` when no server answers in the client's time.
    pub async fn server_info(&self) -> Result<ServerInfo> {
        self.tables_for("server_info").await
    }

    /// [`server_info`](Self::server_info) on behalf of `operation`, which errors are of.
    pub(crate) async fn tables_for(&self, operation: &str) -> Result<ServerInfo> {
        let info = match self.connection() {
            Connection::Local(local) => local.info(),
            Connection::Many(many) => many.server_info(self.timeout()).await?,
            Connection::Remote(remote) => {
                let answer = self.call(operation, || {
                    let mut stub = remote.stub();
                    async move { stub.server_info(ServerInfoRequest {}).await }
                });
                let info = ServerInfo::from_message(&answer.await?)?;
                self.remember(&info);
                info
            }
        };
        self.shared.signatures.replace(&info.tables);
        Ok(info)
    }

    /// What the server holds and who waits for what. Only Relive's servers know.
    ///
    /// # Errors
    /// `Unimplemented` from a dm-reverb server, `Timeout` when no server answers in the client's time.
    pub async fn status(&self) -> Result<ServerStatus> {
        match self.connection() {
            Connection::Local(local) => Ok(local.status()),
            Connection::Many(many) => many.status(self.timeout()).await,
            Connection::Remote(remote) => {
                let answer = self.call("status", || {
                    let mut stub = remote.own_stub();
                    async move { stub.describe(DescribeRequest {}).await }
                });
                ServerStatus::from_message(answer.await?)
            }
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

    /// In one call sets priorities (`updates`: key and priority) and deletes items (`deletes`: keys) of `table`. Keys that the table
    /// does not have are ignored.
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
        let remote = match self.connection() {
            Connection::Local(local) => return local.mutate(table, updates, deletes),
            Connection::Many(many) => return many.mutate(table, updates, deletes, self.timeout()).await,
            Connection::Remote(remote) => remote,
        };
        let request = MutatePrioritiesRequest {
            table: table.to_owned(),
            updates: updates.iter().map(|&(key, priority)| KeyWithPriority { key, priority }).collect(),
            delete_keys: deletes.to_vec(),
        };
        self.call("mutate_priorities", || {
            let (mut stub, request) = (remote.stub(), request.clone());
            async move { stub.mutate_priorities(request).await }
        })
        .await?;
        Ok(())
    }

    /// Removes all items of `table` and sets its counters to 0. It is asked for once: a server that comes back may have loaded
    /// items that are not to be removed.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unavailable` if the connection ends before the answer is there (the table may be empty
    /// then or not), `Timeout` after the client's time.
    pub async fn reset(&self, table: &str) -> Result<()> {
        let remote = match self.connection() {
            Connection::Local(local) => return local.reset(table),
            Connection::Many(many) => return many.reset(table, self.timeout()).await,
            Connection::Remote(remote) => remote,
        };
        let request = ResetRequest { table: table.to_owned() };
        let reset = || {
            let (mut stub, request) = (remote.stub(), request.clone());
            async move { stub.reset(request).await }
        };
        self.call_while("reset", is_unsent, reset).await?;
        self.shared.remembered.forget(table);
        Ok(())
    }

    /// Makes the server write a checkpoint; gives its path on the server's machine, or its URL. It holds everything that was
    /// confirmed before. Calls at the same time share checkpoints; a call that ends early ends none.
    ///
    /// # Errors
    /// `InvalidArgument` from a server or an engine without a checkpointer, `Internal` if the checkpoint cannot be written,
    /// `Unavailable` at once if no server is there, `Timeout` after the client's time.
    pub async fn checkpoint(&self) -> Result<String> {
        let remote = match self.connection() {
            Connection::Local(local) => return self.local_checkpoint(local.engine()).await,
            Connection::Many(many) => return many.checkpoint(self.timeout()).await,
            Connection::Remote(remote) => remote,
        };
        let checkpoint = || {
            let mut stub = remote.stub();
            async move { stub.checkpoint(CheckpointRequest {}).await }
        };
        Ok(self.call_while("checkpoint", |_| false, checkpoint).await?.checkpoint_path)
    }

    async fn local_checkpoint(&self, engine: &Engine) -> Result<String> {
        let operation = "checkpoint";
        let refused = |error| Error::from_engine(operation, error);
        let pending = engine.request_checkpoint().map_err(refused)?;
        match Deadline::after(self.timeout()).run(pending).await {
            None => Err(self.timed_out(operation, None)),
            Some(saved) => Ok(saved.map_err(refused)?.location),
        }
    }

    /// What becomes of checkpoints: what is being written and how far it is, what was written last, when the next is due. Only
    /// Relive's servers know.
    ///
    /// # Errors
    /// As [`status`](Self::status), of which this is a part.
    pub async fn checkpoint_status(&self) -> Result<CheckpointStatus> {
        let remote = match self.connection() {
            Connection::Local(local) => return Ok(local.engine().checkpoint_status()),
            Connection::Many(many) => return many.checkpoint_status(self.timeout()).await,
            Connection::Remote(remote) => remote,
        };
        let answer = self.call("checkpoint_status", || {
            let mut stub = remote.own_stub();
            async move { stub.checkpoint_status(CheckpointStatusRequest {}).await }
        });
        let status = answer.await?.status.unwrap_or_default();
        checkpoint_status::from_wire(status).map_err(senseless_checkpoint)
    }

    /// Calls until there is an answer: a server that is not there yet is waited for.
    ///
    /// `attempt` gives an owned future, so that calls can be spawned on any scheduler.
    pub(super) async fn call<T, F>(&self, operation: &str, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<Response<T>, Status>>,
    {
        self.call_while(operation, is_unanswered, attempt).await
    }

    /// Calls again for as long as `calls_again` says so of what came of it.
    async fn call_while<T, F>(
        &self,
        operation: &str,
        calls_again: impl Fn(&Status) -> bool,
        attempt: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = std::result::Result<Response<T>, Status>>,
    {
        let deadline = Deadline::after(self.timeout());
        let mut backoff = Backoff::new();
        let mut trouble = None;
        loop {
            let started = Instant::now();
            match deadline.run(attempt()).await {
                Some(Ok(answer)) => return Ok(answer.into_inner()),
                Some(Err(status)) if calls_again(&status) => trouble = Some(status),
                Some(Err(status)) => return Err(Error::from_status(operation, status)),
                None => return Err(self.timed_out(operation, trouble.as_ref())),
            }
            if deadline.run(sleep(backoff.wait_after(started.elapsed()))).await.is_none() {
                return Err(self.timed_out(operation, trouble.as_ref()));
            }
        }
    }

    /// The error of a call that was not answered in time.
    pub(crate) fn timed_out(&self, operation: &str, trouble: Option<&Status>) -> Error {
        let why = match trouble {
            Some(status) => format!("no server there: {}", status.message()),
            None => "the server did not answer".to_owned(),
        };
        let (timeout, address) = (self.timeout(), self.address());
        let text = format!("{operation}: Deadline Exceeded after {timeout:?} at {address}: {why}");
        Error::new(ErrorKind::Timeout, text)
    }
}
