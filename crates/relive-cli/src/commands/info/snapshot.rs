//! A snapshot of a server, with all the details that it reports.

use relive_client::{Client, ErrorKind, Result, ServerInfo, ServerStatus, TableInfo, TableStatus};
use tokio::time::Instant;

/// A server at one point in time.
#[derive(Debug)]
pub(in crate::commands) struct Snapshot {
    pub(in crate::commands) taken_at: Instant,
    pub(in crate::commands) server: Server,
}

/// The server's report about itself and its tables.
#[derive(Debug)]
pub(in crate::commands) enum Server {
    /// A Relive server.
    Relive(Box<ServerStatus>),
    /// A server that supports only dm-reverb's protocol, which reports no bytes and no waiters.
    Reverb(ServerInfo),
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Table<'a> {
    pub(in crate::commands) info: &'a TableInfo,
    pub(in crate::commands) cursor: f64,
    /// The data that only Relive's servers report.
    pub(in crate::commands) details: Option<&'a TableStatus>,
}

impl Snapshot {
    /// Queries the server in the protocol that it supports.
    pub(in crate::commands) async fn take(client: &Client) -> Result<Self> {
        match client.status().await {
            Ok(status) => Ok(Self::of(Server::Relive(Box::new(status)))),
            Err(error) if error.kind() == ErrorKind::Unimplemented => {
                client.server_info().await.map(|info| Self::of(Server::Reverb(info)))
            }
            Err(error) => Err(error),
        }
    }

    pub(in crate::commands) fn of(server: Server) -> Self {
        Self { taken_at: Instant::now(), server }
    }

    pub(in crate::commands) fn tables(&self) -> Vec<Table<'_>> {
        match &self.server {
            Server::Relive(status) => status.tables.iter().map(Table::of_status).collect(),
            Server::Reverb(info) => info.tables.iter().map(Table::of_info).collect(),
        }
    }

    /// Returns the table with the given name.
    pub(in crate::commands) fn table(&self, name: &str) -> Option<Table<'_>> {
        match &self.server {
            Server::Relive(status) => status.table(name).map(Table::of_status),
            Server::Reverb(info) => {
                info.tables.iter().find(|table| table.config.name == name).map(Table::of_info)
            }
        }
    }
}

impl<'a> Table<'a> {
    fn of_status(status: &'a TableStatus) -> Self {
        Self { info: &status.info, cursor: status.limiter_cursor, details: Some(status) }
    }

    pub(in crate::commands) fn of_info(info: &'a TableInfo) -> Self {
        let inserts = info.inserts as f64;
        let cursor = inserts * info.config.rate_limiter.samples_per_insert - info.samples as f64;
        Self { info, cursor, details: None }
    }
}
