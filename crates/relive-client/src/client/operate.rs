//! Changing the tables of a server in use.

use std::error::Error as _;

use relive_engine::EngineError;
use relive_table::{Changed, TableChange, TableConfig};
use relive_wire::operate;
use relive_wire::v1::DropTableRequest;

use super::{Client, Connection};
use crate::{Error, PartialFailure, Result};

impl Client {
    /// Changes rules of `table` while it is in use, all of them or none; tells what is other than before. Whoever may go on then
    /// does. The cursor of the rate limiter stays where it is: a new ratio is for inserts to come.
    ///
    /// Items beyond smaller bounds leave by the remover's choice before this returns. The change is logged by the server and
    /// shown in [`ServerStatus::changes`](crate::ServerStatus::changes). It lasts until the server ends; one that begins with a
    /// checkpoint has the rules of that checkpoint, and nothing is paused.
    ///
    /// ```
    /// use relive_client::{Client, TableChange};
    /// # use relive_engine::Engine;
    /// # use relive_table::TableConfig;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("steps", 100)).build()?);
    /// # runtime.block_on(async {
    /// let changed = client.change_table("steps", TableChange::new().max_size(10)).await?;
    /// assert_eq!((&*changed.changes[0].old, &*changed.changes[0].new), ("100", "10"));
    /// # Ok::<(), relive_client::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `InvalidArgument` for rules out of range and for no change at all, `Unimplemented` from
    /// a dm-reverb server, `Timeout` after the client's time.
    pub async fn change_table(&self, table: &str, change: TableChange) -> Result<Changed> {
        if change.is_empty() {
            return Err(Error::invalid("change_table: nothing is to be changed; set at least one rule"));
        }
        let remote = match self.connection() {
            Connection::Many(many) => return many.change_table(table, &change, self.timeout()).await,
            Connection::Local(local) => {
                let changed = local.engine().change_table(table, &change, local.who());
                return changed.map_err(refused("change_table"));
            }
            Connection::Remote(remote) => remote,
        };
        let request = operate::change_to_wire(table, &change);
        let answer = self.call("change_table", || {
            let (mut stub, request) = (remote.own_stub(), request.clone());
            async move { stub.change_table(request).await }
        });
        Ok(operate::changed_from_wire(answer.await?))
    }

    /// Holds back inserts, samples or both of `table`. Calls wait, and say that the table is paused if they are given up.
    ///
    /// # Errors
    /// As [`change_table`](Self::change_table).
    pub async fn pause_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.change_table(table, paused(inserts, samples, true)).await
    }

    /// Lets inserts, samples or both of `table` go on.
    ///
    /// # Errors
    /// As [`change_table`](Self::change_table).
    pub async fn resume_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.change_table(table, paused(inserts, samples, false)).await
    }

    /// Adds an empty table. A server that is started again finds it in its checkpoint, and wants it in its configuration, too.
    ///
    /// # Errors
    /// `InvalidArgument` for rules out of range and for a name that is taken, `Unimplemented` from a dm-reverb server, `Timeout`
    /// after the client's time.
    pub async fn add_table(&self, config: TableConfig) -> Result<()> {
        config.validate().map_err(|error| Error::invalid(format!("add_table: {error}")))?;
        let remote = match self.connection() {
            Connection::Many(many) => return many.add_table(config, self.timeout()).await,
            Connection::Local(local) => {
                return local.engine().add_table(config, local.who()).map_err(refused("add_table"));
            }
            Connection::Remote(remote) => remote,
        };
        let request = operate::add_to_wire(&config);
        let answer = self.call("add_table", || {
            let (mut stub, request) = (remote.own_stub(), request.clone());
            async move { stub.add_table(request).await }
        });
        Box::pin(answer).await.map(drop)
    }

    /// Drops `table` with all its items. Calls that wait for it fail with `NotFound`. A server keeps its last table.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `InvalidArgument` for the only one, `Unimplemented` from a dm-reverb server, `Timeout`
    /// after the client's time.
    pub async fn drop_table(&self, table: &str) -> Result<()> {
        let dropped = self.drop_of_server(table).await;
        // Another one of this name has items that are to be described anew, at every server that dropped this one.
        if dropped.as_ref().map_or_else(is_done_in_part, |()| true) {
            self.proposals().forget(table);
        }
        dropped
    }

    async fn drop_of_server(&self, table: &str) -> Result<()> {
        let remote = match self.connection() {
            Connection::Many(many) => return many.drop_table(table, self.timeout()).await,
            Connection::Local(local) => {
                return local.engine().drop_table(table, local.who()).map_err(refused("drop_table"));
            }
            Connection::Remote(remote) => remote,
        };
        let request = DropTableRequest { table: table.to_owned() };
        let answer = self.call("drop_table", || {
            let (mut stub, request) = (remote.own_stub(), request.clone());
            async move { stub.drop_table(request).await }
        });
        answer.await.map(drop)
    }
}

fn is_done_in_part(error: &Error) -> bool {
    let failure = error.source().and_then(|source| source.downcast_ref::<PartialFailure>());
    failure.is_some_and(|failure| !failure.done().is_empty())
}

fn paused(inserts: bool, samples: bool, pause: bool) -> TableChange {
    TableChange {
        pause_inserts: inserts.then_some(pause),
        pause_samples: samples.then_some(pause),
        ..TableChange::default()
    }
}

fn refused(operation: &'static str) -> impl Fn(EngineError) -> Error {
    move |error| Error::from_engine(operation, error)
}
