//! Changes a server's tables while they are in use.

use std::time::Duration;

use relive_engine::EngineError;
use relive_table::{Changed, ConfigError, TableChange, TableConfig};
use relive_wire::operate;
use relive_wire::v1::DropTableRequest;

use crate::answer::{engine_error, is_unsent};
use crate::connection::Connection;
use crate::{Error, Result};

impl Connection {
    /// Changes the rules of `table` while it is in use. Makes either all of the changes or none of them. The client
    /// sends this request once and does not retry it, because a repeated change could undo another client's change.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for rules that are out of range; `Unimplemented` from a
    /// dm-reverb server; `Unavailable` if the connection ends before the response arrives (the rules may or may not
    /// have changed); `Timeout` if no server answers within `timeout`.
    pub async fn change_table(
        &self,
        table: &str,
        change: &TableChange,
        timeout: Duration,
    ) -> Result<Changed> {
        let request =
            operate::change_to_wire(table, change).map_err(|error| refused("change_table", error))?;
        let answer = self.call_while("change_table", timeout, is_unsent, || {
            let (mut stub, request) = (self.replay_stub(), request.clone());
            async move { stub.change_table(request).await }
        });
        Ok(operate::changed_from_wire(answer.await?))
    }

    /// Adds an empty table. The client sends this request once and does not retry it, because a repeated request would
    /// report that the table already exists.
    ///
    /// # Errors
    /// `InvalidArgument` for rules that are out of range or a name that already exists; `Unimplemented` from a
    /// dm-reverb server; `Unavailable` if the connection ends before the response arrives (the table may or may not
    /// exist); `Timeout` if no server answers within `timeout`.
    pub async fn add_table(&self, config: &TableConfig, timeout: Duration) -> Result<()> {
        let request = operate::add_to_wire(config).map_err(|error| refused("add_table", error))?;
        let answer = self.call_while("add_table", timeout, is_unsent, || {
            let (mut stub, request) = (self.replay_stub(), request.clone());
            async move { stub.add_table(request).await }
        });
        Box::pin(answer).await.map(drop)
    }

    /// Drops `table` with all its items. The client sends this request once and does not retry it, because a repeated
    /// request could drop a table that was added again in the meantime.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for the only table; `Unimplemented` from a dm-reverb server;
    /// `Unavailable` if the connection ends before the response arrives (the table may or may not exist); `Timeout` if
    /// no server answers within `timeout`.
    pub async fn drop_table(&self, table: &str, timeout: Duration) -> Result<()> {
        let request = DropTableRequest { table: table.to_owned() };
        let answer = self.call_while("drop_table", timeout, is_unsent, || {
            let (mut stub, request) = (self.replay_stub(), request.clone());
            async move { stub.drop_table(request).await }
        });
        answer.await?;
        self.shared.remembered.forget(table);
        Ok(())
    }
}

/// Returns the error for rules that cannot be sent; its text is the same as from a server.
fn refused(operation: &str, source: ConfigError) -> Error {
    engine_error(operation, EngineError::Rules { source })
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::ErrorKind;
    use crate::options::ClientOptions;

    /// Accepts one connection and closes it without an answer. Later connections are never answered.
    async fn accept_one(listener: TcpListener) {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.read_exact(&mut [0; 24]).await.unwrap();
        drop(socket);
        std::future::pending::<()>().await;
        drop(listener);
    }

    /// If such a call were repeated, it could report that the table already exists or is missing, or drop a new table.
    #[tokio::test]
    async fn a_change_whose_answer_is_lost_is_not_repeated() {
        for call in 0..3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let server = tokio::spawn(accept_one(listener));
            let connection = Connection::new(&address, ClientOptions::default()).unwrap();
            let long = Duration::from_secs(20);
            let lost = match call {
                0 => connection.change_table("t", &TableChange::new().max_size(5), long).await.map(drop),
                1 => connection.add_table(&TableConfig::new("t"), long).await,
                _ => connection.drop_table("t", long).await,
            };
            assert_eq!(lost.unwrap_err().kind(), ErrorKind::Unavailable, "{call}");
            server.abort();
        }
    }

    #[tokio::test]
    async fn a_bound_of_no_bytes_is_refused_before_it_is_sent() {
        let connection = Connection::new("127.0.0.1:1", ClientOptions::default()).unwrap();
        let refused = connection.change_table("t", &TableChange::new().max_bytes(0), Duration::ZERO).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(
            refused.to_string(),
            "change_table: max_bytes of table \"t\" must be at least 1, got 0; omit it for a table without this bound"
        );
    }
}
