//! A snapshot of a server, with all the details that it reports.

use std::time::Duration;

use relive_client::{
    CheckpointStatus, ChunkTotals, Client, ErrorKind, LoggedChange, MemoryStatus, Paused, Result, ServerInfo,
    ServerStatus, TableInfo, TableStatus, Waiter,
};
use tokio::time::Instant;

/// A server at one point in time.
#[derive(Debug)]
pub(in crate::commands) struct Snapshot {
    pub(in crate::commands) taken_at: Instant,
    pub(in crate::commands) server: Server,
    pub(in crate::commands) tables: Vec<Table>,
}

/// The server's report about itself.
#[derive(Debug)]
pub(in crate::commands) enum Server {
    /// A Relive server.
    Relive {
        version: String,
        uptime: Duration,
        chunks: ChunkTotals,
        memory: Box<MemoryStatus>,
        connections: u64,
        insert_streams: u64,
        sample_streams: u64,
        changes: Vec<LoggedChange>,
        checkpoints: Box<CheckpointStatus>,
    },
    /// A server that supports only dm-reverb's protocol, which reports no bytes and no waiters.
    Reverb,
}

/// A table.
#[derive(Debug)]
pub(in crate::commands) struct Table {
    pub(in crate::commands) info: TableInfo,
    pub(in crate::commands) cursor: f64,
    pub(in crate::commands) details: Option<Details>,
}

/// The data about a table that only Relive's servers report.
#[derive(Debug)]
pub(in crate::commands) struct Details {
    /// Bytes of chunks, each counted for every item that refers to it.
    pub(in crate::commands) bytes: u64,
    pub(in crate::commands) chunks: ChunkTotals,
    pub(in crate::commands) undelivered_samples: u64,
    pub(in crate::commands) paused: Paused,
    pub(in crate::commands) waiters: Vec<Waiter>,
    pub(in crate::commands) waiters_not_listed: u64,
}

impl Snapshot {
    /// Queries the server in the protocol that it supports.
    pub(in crate::commands) async fn take(client: &Client) -> Result<Self> {
        match client.status().await {
            Ok(status) => Ok(Self::of_status(status)),
            Err(error) if error.kind() == ErrorKind::Unimplemented => {
                client.server_info().await.map(Self::of_server_info)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the table with the given name.
    pub(in crate::commands) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.info.config.name == name)
    }

    fn of_status(status: ServerStatus) -> Self {
        let server = Server::Relive {
            version: status.version,
            uptime: status.uptime,
            chunks: status.chunks,
            memory: Box::new(status.memory),
            connections: status.connections,
            changes: status.changes,
            insert_streams: status.insert_streams,
            sample_streams: status.sample_streams,
            checkpoints: Box::new(status.checkpoints),
        };
        let tables = status.tables.into_iter().map(Table::of_status).collect();
        Self { taken_at: Instant::now(), server, tables }
    }

    pub(in crate::commands) fn of_server_info(info: ServerInfo) -> Self {
        let tables = info.tables.into_iter().map(Table::of_info).collect();
        Self { taken_at: Instant::now(), server: Server::Reverb, tables }
    }
}

impl Table {
    fn of_status(status: TableStatus) -> Self {
        let details = Details {
            bytes: status.referenced_bytes,
            chunks: status.chunks,
            undelivered_samples: status.undelivered_samples,
            paused: status.paused,
            waiters: status.waiters,
            waiters_not_listed: status.waiters_not_listed,
        };
        Self { info: status.info, cursor: status.limiter_cursor, details: Some(details) }
    }

    pub(in crate::commands) fn of_info(info: TableInfo) -> Self {
        let inserts = info.inserts as f64;
        let cursor = inserts * info.config.rate_limiter.samples_per_insert - info.samples as f64;
        Self { info, cursor, details: None }
    }
}
