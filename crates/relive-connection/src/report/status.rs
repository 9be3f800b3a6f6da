//! The status of a Relive server or an engine in this process, beyond dm-reverb's protocol.

use std::sync::Arc;
use std::time::Duration;

use relive_engine::{Engine, TableHandle};
use relive_table::{CheckpointStatus, LoggedChange, Paused, TableInfo};
use relive_tensor::{ChunkTotals, CodecSet, Nest};
use relive_wire::{WireError, checkpoint_status, codec, operate, structure, table, v1};

use super::memory::MemoryStatus;
use super::waits::{Waiter, Waits};
use crate::{Error, ErrorKind, Result};

/// The contents of a Relive server, and the callers that are waiting.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The version of the server.
    pub version: String,
    /// The time since the server started.
    pub uptime: Duration,
    /// The tables, sorted by name.
    pub tables: Vec<TableStatus>,
    /// All live chunks, each counted once.
    pub chunks: ChunkTotals,
    /// The bound on the bytes of chunks in memory.
    pub memory: MemoryStatus,
    /// The number of open insert streams.
    pub insert_streams: u64,
    /// The number of open sample streams.
    pub sample_streams: u64,
    /// The state of checkpoints.
    pub checkpoints: CheckpointStatus,
    /// The codecs that writers may use.
    pub codecs: CodecSet,
    /// The number of open connections.
    pub connections: u64,
    /// The latest changes to tables in use, oldest first.
    pub changes: Vec<LoggedChange>,
}

/// A table and its waiters.
#[derive(Debug, Clone)]
pub struct TableStatus {
    /// The configuration, size and counters of the table.
    pub info: TableInfo,
    /// `inserts * samples_per_insert - samples`, which the limiter keeps between `min_diff` and `max_diff`. Each insert
    /// is weighted with the ratio that applied when it was made.
    pub limiter_cursor: f64,
    /// The number of items that left the table since the last reset.
    pub deletes: u64,
    /// The chunks of the items, each counted once.
    pub chunks: ChunkTotals,
    /// The number of bytes in the chunks to which the table's items refer. A chunk to which two items refer is counted
    /// twice.
    pub referenced_bytes: u64,
    /// The waiting callers, longest wait first.
    pub waiters: Vec<Waiter>,
    /// The number of further waiters.
    pub waiters_not_listed: u64,
    /// The number of samples that were taken for a caller, but could not be sent.
    pub undelivered_samples: u64,
    /// The structure of items, if a signature or a writer has named the columns; see `Client::column_names`.
    pub columns: Option<Arc<Nest<()>>>,
    /// The conditions that a sample and an insert would currently wait for.
    pub waits: Waits,
    /// The paused operations.
    pub paused: Paused,
}

impl ServerStatus {
    /// Returns the status of the table with the given name.
    pub fn table(&self, name: &str) -> Option<&TableStatus> {
        self.tables.iter().find(|table| table.info.config.name == name)
    }

    /// Returns the status of the tables in this process, to which there are no streams.
    pub(crate) fn of_engine(engine: &Engine, uptime: Duration) -> ServerStatus {
        let tables = engine.tables().iter().map(TableHandle::status).map(TableStatus::from).collect();
        let memory = engine.memory();
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime,
            tables: sorted(tables),
            chunks: memory.chunks,
            memory: MemoryStatus::of_engine(&memory),
            insert_streams: 0,
            sample_streams: 0,
            checkpoints: engine.checkpoint_status(),
            codecs: CodecSet::ALL,
            connections: 0,
            changes: engine.changes(),
        }
    }

    pub(crate) fn from_message(message: v1::DescribeResponse) -> Result<ServerStatus> {
        let tables = message.tables.into_iter().map(TableStatus::from_message).collect::<Result<Vec<_>>>();
        let tables = sorted(tables?);
        let checkpoints = message.checkpoints.unwrap_or_default();
        Ok(ServerStatus {
            version: message.version,
            uptime: Duration::from_millis(message.uptime_ms),
            tables,
            chunks: table::chunks_from_wire(message.chunks.unwrap_or_default()),
            memory: MemoryStatus::from_message(message.memory.unwrap_or_default()),
            insert_streams: message.insert_streams,
            sample_streams: message.sample_streams,
            checkpoints: checkpoint_status::from_wire(checkpoints).map_err(unreadable_checkpoint)?,
            codecs: codec::known_to_peer(&message.codecs),
            connections: message.connections,
            changes: message.changes.into_iter().map(operate::logged_from_wire).collect(),
        })
    }
}

fn sorted(mut tables: Vec<TableStatus>) -> Vec<TableStatus> {
    tables.sort_unstable_by(|a, b| a.info.config.name.cmp(&b.info.config.name));
    tables
}

impl From<relive_engine::TableStatus> for TableStatus {
    fn from(status: relive_engine::TableStatus) -> TableStatus {
        TableStatus {
            limiter_cursor: status.limiter_cursor,
            deletes: u64::try_from(status.info.deletes).unwrap_or(0),
            chunks: status.bytes,
            referenced_bytes: status.referenced_bytes,
            waiters: status.waiters.iter().map(Waiter::of_engine).collect(),
            waiters_not_listed: u64::try_from(status.waiters_not_listed).unwrap_or(u64::MAX),
            undelivered_samples: status.undelivered_samples,
            columns: status.columns,
            paused: status.paused,
            waits: Waits {
                sample: status.sample_shortfall.map(|missing| missing.to_string()),
                insert: status.insert_shortfall.map(|missing| missing.to_string()),
            },
            info: status.info,
        }
    }
}

impl TableStatus {
    fn from_message(message: v1::TableStatus) -> Result<TableStatus> {
        let info = table::info_from_wire(&message.info.unwrap_or_default()).map_err(unreadable)?;
        let columns = match &message.columns {
            Some(columns) => Some(structure::from_wire(columns).map_err(unreadable)?),
            None => structure_of(&info),
        };
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(TableStatus {
            info,
            limiter_cursor: message.limiter_cursor,
            deletes: message.deletes,
            chunks: table::chunks_from_wire(message.chunks.unwrap_or_default()),
            referenced_bytes: message.referenced_bytes,
            waiters: message.waiters.into_iter().map(Waiter::from_message).collect(),
            waiters_not_listed: message.waiters_not_listed,
            columns: columns.map(Arc::new),
            paused: Paused { inserts: message.inserts_paused, samples: message.samples_paused },
            undelivered_samples: message.undelivered_samples,
            waits: Waits { sample: text(message.sample_waits_for), insert: text(message.insert_waits_for) },
        })
    }
}

/// Returns the error for a status of checkpoints that this client cannot parse.
pub(crate) fn unreadable_checkpoint(error: WireError) -> Error {
    Error::with_source(ErrorKind::Protocol, format!("status: {error}"), error)
}

fn unreadable(error: WireError) -> Error {
    let text = format!("status: the server sent an invalid description of a table: {error}");
    Error::with_source(ErrorKind::Protocol, text, error)
}

/// Returns the structure of a signature, unless it has no leaves.
fn structure_of(info: &TableInfo) -> Option<Nest<()>> {
    let signature = info.config.signature.as_deref().filter(|signature| !signature.is_empty());
    signature.map(|signature| signature.map(|_| ()))
}
