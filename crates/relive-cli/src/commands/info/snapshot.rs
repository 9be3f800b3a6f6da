//! A snapshot of a server, with all the details that it reports.

use relive_client::{
    Client, ErrorKind, Result, ServerInfo, ServerStanding, ServerState, ServerStatus, TableInfo, TableStatus,
};
use tokio::time::Instant;

/// A server at one point in time.
#[derive(Debug)]
pub(in crate::commands) struct Snapshot {
    pub(in crate::commands) taken_at: Instant,
    pub(in crate::commands) server: Server,
    /// The number of servers whose numbers are added up.
    servers: u32,
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
    /// The cursor of the rate limiter; of several servers, the mean of their cursors.
    pub(in crate::commands) cursor: f64,
    /// The number of servers whose numbers are added up.
    pub(in crate::commands) servers: u32,
    /// The data that only Relive's servers report.
    pub(in crate::commands) details: Option<&'a TableStatus>,
}

impl Snapshot {
    /// Queries the server in the protocol that it supports.
    pub(in crate::commands) async fn take(client: &Client) -> Result<Self> {
        let server = match client.status().await {
            Ok(status) => Server::Relive(Box::new(status)),
            Err(error) if error.kind() == ErrorKind::Unimplemented => {
                Server::Reverb(client.server_info().await?)
            }
            Err(error) => return Err(error),
        };
        let is_up = |server: &ServerState| server.standing == ServerStanding::Up;
        let servers = client.servers().into_iter().filter(is_up).count();
        Ok(Self { servers: u32::try_from(servers).unwrap_or(1).max(1), ..Self::of(server) })
    }

    pub(in crate::commands) fn of(server: Server) -> Self {
        Self { taken_at: Instant::now(), server, servers: 1 }
    }

    pub(in crate::commands) fn tables(&self) -> Vec<Table<'_>> {
        match &self.server {
            Server::Relive(status) => {
                status.tables.iter().map(|table| Table::of_status(table, self.servers)).collect()
            }
            Server::Reverb(info) => {
                info.tables.iter().map(|table| Table::of_info(table, self.servers)).collect()
            }
        }
    }

    /// Returns the table with the given name.
    pub(in crate::commands) fn table(&self, name: &str) -> Option<Table<'_>> {
        self.tables().into_iter().find(|table| table.info.config.name == name)
    }
}

impl<'a> Table<'a> {
    fn of_status(status: &'a TableStatus, servers: u32) -> Self {
        Self { info: &status.info, cursor: status.limiter_cursor, servers, details: Some(status) }
    }

    pub(in crate::commands) fn of_info(info: &'a TableInfo, servers: u32) -> Self {
        let inserts = info.inserts as f64;
        let sum = inserts * info.config.rate_limiter.samples_per_insert - info.samples as f64;
        Self { info, cursor: sum / f64::from(servers), servers, details: None }
    }

    /// Returns the minimum number of items for sampling, added up like the items. Each server needs its own minimum.
    pub(in crate::commands) fn min_items(&self) -> i64 {
        self.info.config.rate_limiter.min_size_to_sample.saturating_mul(self.servers.into())
    }
}
