//! Changes a server's tables while they are in use.

use std::time::Duration;

use relive_table::{Changed, TableChange, TableConfig};
use relive_wire::operate;
use relive_wire::v1::DropTableRequest;

use crate::Result;
use crate::connection::Connection;

impl Connection {
    /// Changes the rules of `table` while it is in use. Makes either all of the changes or none of them.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for rules that are out of range; `Unimplemented` from a
    /// dm-reverb server; `Timeout` if no server answers within `timeout`.
    pub async fn change_table(
        &self,
        table: &str,
        change: &TableChange,
        timeout: Duration,
    ) -> Result<Changed> {
        let request = operate::change_to_wire(table, change);
        let answer = self.call("change_table", timeout, || {
            let (mut stub, request) = (self.replay_stub(), request.clone());
            async move { stub.change_table(request).await }
        });
        Ok(operate::changed_from_wire(answer.await?))
    }

    /// Adds an empty table.
    ///
    /// # Errors
    /// `InvalidArgument` for rules that are out of range or a name that already exists; `Unimplemented` from a
    /// dm-reverb server; `Timeout` if no server answers within `timeout`.
    pub async fn add_table(&self, config: &TableConfig, timeout: Duration) -> Result<()> {
        let request = operate::add_to_wire(config);
        let answer = self.call("add_table", timeout, || {
            let (mut stub, request) = (self.replay_stub(), request.clone());
            async move { stub.add_table(request).await }
        });
        Box::pin(answer).await.map(drop)
    }

    /// Drops `table` with all its items.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for the only table; `Unimplemented` from a dm-reverb server;
    /// `Timeout` if no server answers within `timeout`.
    pub async fn drop_table(&self, table: &str, timeout: Duration) -> Result<()> {
        let request = DropTableRequest { table: table.to_owned() };
        let answer = self.call("drop_table", timeout, || {
            let (mut stub, request) = (self.replay_stub(), request.clone());
            async move { stub.drop_table(request).await }
        });
        answer.await.map(drop)
    }
}
