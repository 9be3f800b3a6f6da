//! A server at one moment, in as much detail as it gives.

use std::time::Duration;

use relive_client::{
    CheckpointStatus, ChunkTotals, Client, ErrorKind, MemoryStatus, Result, ServerInfo, ServerStatus,
    TableInfo, TableStatus, Waiter,
};
use tokio::time::Instant;

/// A server at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) taken_at: Instant,
    pub(super) server: Server,
    pub(super) tables: Vec<Table>,
}

/// What the server says about itself.
#[derive(Debug)]
pub(super) enum Server {
    /// Ours.
    Relive {
        version: String,
        uptime: Duration,
        chunks: ChunkTotals,
        memory: Box<MemoryStatus>,
        insert_streams: u64,
        sample_streams: u64,
        checkpoints: Box<CheckpointStatus>,
    },
    /// One that speaks only dm-reverb's protocol, which has no bytes and no waiters.
    Reverb,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) info: TableInfo,
    pub(super) cursor: f64,
    pub(super) details: Option<Details>,
}

/// What only Relive's servers know of a table.
#[derive(Debug)]
pub(super) struct Details {
    /// Bytes of chunks, each counted for every item that refers to it.
    pub(super) bytes: u64,
    pub(super) chunks: ChunkTotals,
    pub(super) undelivered_samples: u64,
    pub(super) waiters: Vec<Waiter>,
    pub(super) waiters_not_listed: u64,
}

impl Snapshot {
    /// Asks the server, in the protocol that it speaks.
    pub(super) async fn take(client: &Client) -> Result<Self> {
        match client.status().await {
            Ok(status) => Ok(Self::of_status(status)),
            Err(error) if error.kind() == ErrorKind::Unimplemented => {
                client.server_info().await.map(Self::of_server_info)
            }
            Err(error) => Err(error),
        }
    }

    /// The table of this name.
    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.info.config.name == name)
    }

    fn of_status(status: ServerStatus) -> Self {
        let server = Server::Relive {
            version: status.version,
            uptime: status.uptime,
            chunks: status.chunks,
            memory: Box::new(status.memory),
            insert_streams: status.insert_streams,
            sample_streams: status.sample_streams,
            checkpoints: Box::new(status.checkpoints),
        };
        let tables = status.tables.into_iter().map(Table::of_status).collect();
        Self { taken_at: Instant::now(), server, tables }
    }

    pub(super) fn of_server_info(info: ServerInfo) -> Self {
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
            waiters: status.waiters,
            waiters_not_listed: status.waiters_not_listed,
        };
        Self { info: status.info, cursor: status.limiter_cursor, details: Some(details) }
    }

    pub(super) fn of_info(info: TableInfo) -> Self {
        let inserts = info.inserts as f64;
        let cursor = inserts * info.config.rate_limiter.samples_per_insert - info.samples as f64;
        Self { info, cursor, details: None }
    }
}
