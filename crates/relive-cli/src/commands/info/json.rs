//! The report for programs. `docs/cli.md` lists the fields.

use relive_client::{LoggedChange, TableStatus};
use serde::Serialize;

use super::checkpoints::{CheckpointFields, fields};
use super::memory::{ChunkFields, MemoryFields, chunk_fields, memory_fields};
use super::rates::Rates;
use super::snapshot::{Server, Snapshot, Table};
use super::waiters::{WaiterFields, waiter_fields};
use crate::rules::{ColumnFields, bounds, columns};

/// Returns the report over several lines.
pub(super) fn pretty(address: &str, before: &Snapshot, now: &Snapshot) -> String {
    serde_json::to_string_pretty(&report(address, before, now))
        .expect("strings, numbers and lists of these can be serialized")
}

/// Returns the report in one line.
pub(super) fn line(address: &str, before: &Snapshot, now: &Snapshot) -> String {
    serde_json::to_string(&report(address, before, now))
        .expect("strings, numbers and lists of these can be serialized")
}

#[derive(Serialize)]
struct Report<'a> {
    address: &'a str,
    server: ServerFields<'a>,
    tables: Vec<TableFields<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum ServerFields<'a> {
    Relive {
        version: &'a str,
        uptime_s: f64,
        chunks: u64,
        chunk_bytes: u64,
        chunk_bytes_decoded: u64,
        memory: Box<MemoryFields<'a>>,
        connections: u64,
        insert_streams: u64,
        sample_streams: u64,
        changes: Vec<ChangeFields<'a>>,
        checkpoints: Box<CheckpointFields<'a>>,
    },
    DmReverb,
}

#[derive(Serialize)]
struct TableFields<'a> {
    name: &'a str,
    size: u64,
    max_size: u64,
    max_bytes: Option<u64>,
    sampler: String,
    remover: String,
    max_times_sampled: i32,
    shards: u32,
    inserts: i64,
    samples: i64,
    deletes: i64,
    inserts_per_s: Option<f64>,
    samples_per_s: Option<f64>,
    episodes: u64,
    deleted_episodes: u64,
    unique_samples: u64,
    limiter: LimiterFields,
    signature: Option<Vec<ColumnFields>>,
    #[serde(flatten)]
    details: Option<DetailFields<'a>>,
}

#[derive(Serialize)]
struct LimiterFields {
    samples_per_insert: f64,
    min_size: i64,
    min_diff: Option<f64>,
    max_diff: Option<f64>,
    cursor: f64,
}

#[derive(Serialize)]
struct DetailFields<'a> {
    bytes: u64,
    chunks: ChunkFields,
    undelivered_samples: u64,
    inserts_paused: bool,
    samples_paused: bool,
    waiters: Vec<WaiterFields<'a>>,
    waiters_not_listed: u64,
}

/// A change to a table in use.
#[derive(Serialize)]
struct ChangeFields<'a> {
    /// Seconds since 1970.
    at_s: f64,
    who: &'a str,
    table: &'a str,
    what: &'a str,
    old: &'a str,
    new: &'a str,
}

fn change_fields(change: &LoggedChange) -> ChangeFields<'_> {
    let LoggedChange { at, who, table, what, old, new } = change;
    ChangeFields { at_s: at.as_nanos() as f64 / 1e9, who, table, what, old, new }
}

fn report<'a>(address: &'a str, before: &Snapshot, now: &'a Snapshot) -> Report<'a> {
    let table = |table| table_fields(table, Rates::between(before, now, table));
    Report {
        address,
        server: server_fields(&now.server),
        tables: now.tables().into_iter().map(table).collect(),
    }
}

fn server_fields(server: &Server) -> ServerFields<'_> {
    match server {
        Server::Relive(status) => ServerFields::Relive {
            version: &status.version,
            uptime_s: status.uptime.as_secs_f64(),
            chunks: status.chunks.chunks,
            chunk_bytes: status.chunks.encoded_bytes,
            chunk_bytes_decoded: status.chunks.raw_bytes,
            memory: Box::new(memory_fields(&status.chunks, &status.memory)),
            connections: status.connections,
            changes: status.changes.iter().map(change_fields).collect(),
            insert_streams: status.insert_streams,
            sample_streams: status.sample_streams,
            checkpoints: Box::new(fields(&status.checkpoints)),
        },
        Server::Reverb(_) => ServerFields::DmReverb,
    }
}

fn table_fields(table: Table<'_>, rates: Rates) -> TableFields<'_> {
    let info = table.info;
    let config = &info.config;
    TableFields {
        name: &config.name,
        size: info.current_size,
        max_size: config.max_size,
        max_bytes: config.max_bytes,
        sampler: config.sampler.to_string(),
        remover: config.remover.to_string(),
        max_times_sampled: config.max_times_sampled,
        shards: config.shards,
        inserts: info.inserts,
        samples: info.samples,
        deletes: info.deletes,
        inserts_per_s: rates.inserts_per_s,
        samples_per_s: rates.samples_per_s,
        episodes: info.num_episodes,
        deleted_episodes: info.num_deleted_episodes,
        unique_samples: info.num_unique_samples,
        limiter: limiter_fields(table),
        signature: config.signature.as_deref().map(columns),
        details: table.details.map(detail_fields),
    }
}

fn limiter_fields(table: Table<'_>) -> LimiterFields {
    let limiter = &table.info.config.rate_limiter;
    let (min_diff, max_diff) = bounds(limiter);
    LimiterFields {
        samples_per_insert: limiter.samples_per_insert,
        min_size: limiter.min_size_to_sample,
        min_diff,
        max_diff,
        cursor: table.cursor,
    }
}

fn detail_fields(details: &TableStatus) -> DetailFields<'_> {
    DetailFields {
        bytes: details.referenced_bytes,
        chunks: chunk_fields(&details.chunks),
        undelivered_samples: details.undelivered_samples,
        inserts_paused: details.paused.inserts,
        samples_paused: details.paused.samples,
        waiters: details.waiters.iter().map(waiter_fields).collect(),
        waiters_not_listed: details.waiters_not_listed,
    }
}
