//! The data that the dashboard receives every second.

use relive_engine::{MemoryStatus, Operation, TableStatus, WaiterInfo};
use relive_table::{CheckpointStatus, FinishedCheckpoint, LoggedChange};
use serde::Serialize;

use super::overview::{Overview, Server, UNREACHABLE_CURSOR, unix_seconds};
use super::plan;
use crate::limits::MAX_TABLES_SHOWN;

/// The maximum number of waiters that are listed for each table.
const MAX_WAITERS_SHOWN: usize = 20;

#[derive(Serialize)]
struct Facts<'a> {
    at: f64,
    version: &'static str,
    phase: &'static str,
    rss_bytes: Option<u64>,
    cpu_seconds: Option<f64>,
    server: Option<ServerFacts<'a>>,
}

#[derive(Serialize)]
struct ServerFacts<'a> {
    uptime_s: f64,
    connections: u64,
    in_flight_bytes: u64,
    max_bytes_in_flight: u64,
    waiting_for_room: u64,
    insert_streams: u64,
    sample_streams: u64,
    memory: MemoryFacts,
    checkpoints: CheckpointFacts<'a>,
    tables: Vec<TableFacts<'a>>,
    tables_not_shown: usize,
    changes: Vec<ChangeFacts<'a>>,
}

#[derive(Serialize)]
struct MemoryFacts {
    chunks: u64,
    encoded_bytes: u64,
    raw_bytes: u64,
    resident_bytes: u64,
    spilled_bytes: u64,
    max_bytes: Option<u64>,
    waiting: usize,
    longest_wait_s: f64,
    reason: Option<String>,
    spill_error: Option<String>,
}

#[derive(Serialize)]
struct CheckpointFacts<'a> {
    enabled: bool,
    saved: u64,
    failed: u64,
    next_due_s: Option<f64>,
    running: Option<RunningFacts>,
    /// The error of the last checkpoint, if it failed.
    error: Option<&'a str>,
    last_saved: Option<SavedFacts<'a>>,
    loaded: Option<&'a str>,
}

#[derive(Serialize)]
struct RunningFacts {
    phase: String,
    elapsed_s: f64,
    items_done: u64,
    items_total: u64,
    bytes_done: u64,
    bytes_total: u64,
}

#[derive(Serialize)]
struct SavedFacts<'a> {
    began_at: f64,
    took_s: f64,
    pause_s: f64,
    location: &'a str,
    written_bytes: u64,
    total_bytes: u64,
}

#[derive(Serialize)]
struct TableFacts<'a> {
    name: &'a str,
    items: u64,
    max_items: u64,
    bytes: u64,
    max_bytes: Option<u64>,
    raw_bytes: u64,
    spilled_bytes: u64,
    episodes: u64,
    sampler: String,
    remover: String,
    max_times_sampled: i32,
    inserts: i64,
    samples: i64,
    deletes: i64,
    cursor: f64,
    min_diff: Option<f64>,
    max_diff: Option<f64>,
    samples_per_insert: f64,
    min_items: i64,
    inserts_paused: bool,
    samples_paused: bool,
    insert_waits_for: Option<String>,
    sample_waits_for: Option<String>,
    waiting_inserts: usize,
    waiting_samples: usize,
    waiters: Vec<WaiterFacts<'a>>,
}

#[derive(Serialize)]
struct WaiterFacts<'a> {
    operation: &'static str,
    who: &'a str,
    waiting_s: f64,
    wanted: u64,
    reason: String,
}

#[derive(Serialize)]
struct ChangeFacts<'a> {
    at: f64,
    who: &'a str,
    table: &'a str,
    what: &'a str,
    old: &'a str,
    new: &'a str,
}

/// Formats the facts as one line of JSON.
pub(super) fn json(overview: &Overview) -> String {
    let facts = Facts {
        at: unix_seconds(overview.at),
        version: env!("CARGO_PKG_VERSION"),
        phase: overview.phase.text(),
        rss_bytes: overview.process.resident_bytes,
        cpu_seconds: overview.process.cpu_seconds,
        server: overview.server.as_ref().map(server),
    };
    serde_json::to_string(&facts).expect("strings, numbers and lists of these can be serialized")
}

fn server(server: &Server) -> ServerFacts<'_> {
    ServerFacts {
        uptime_s: server.uptime.as_secs_f64(),
        connections: server.connections,
        in_flight_bytes: server.traffic.bytes,
        max_bytes_in_flight: server.traffic.max_bytes,
        waiting_for_room: server.traffic.waiting,
        insert_streams: server.insert_streams,
        sample_streams: server.sample_streams,
        memory: memory(&server.memory),
        checkpoints: checkpoints(&server.checkpoints),
        tables: shown(&server.tables).into_iter().map(table).collect(),
        tables_not_shown: server.tables.len().saturating_sub(MAX_TABLES_SHOWN),
        changes: server.changes.iter().rev().map(change).collect(),
    }
}

/// Returns the tables to show. If the tables belong to a run, those that exist once per process come last.
fn shown(tables: &[TableStatus]) -> Vec<&TableStatus> {
    let has_run = tables.iter().any(|table| table.info.config.name == plan::TABLE);
    let is_of_process = |table: &&TableStatus| {
        let name = &table.info.config.name;
        has_run && ["logs/", "orders/"].iter().any(|prefix| name.starts_with(prefix))
    };
    let (last, first): (Vec<_>, Vec<_>) = tables.iter().partition(is_of_process);
    first.into_iter().chain(last).take(MAX_TABLES_SHOWN).collect()
}

fn memory(memory: &MemoryStatus) -> MemoryFacts {
    let waiting = memory.waiters.len() + memory.waiters_not_listed;
    MemoryFacts {
        chunks: memory.chunks.chunks,
        encoded_bytes: memory.chunks.encoded_bytes,
        raw_bytes: memory.chunks.raw_bytes,
        resident_bytes: memory.chunks.resident_bytes(),
        spilled_bytes: memory.chunks.spilled_bytes,
        max_bytes: memory.max_bytes,
        waiting,
        longest_wait_s: memory.waiters.first().map_or(0.0, |waiter| waiter.waiting.as_secs_f64()),
        reason: (waiting > 0).then(|| memory.reason()),
        spill_error: memory.spill_error.clone(),
    }
}

fn checkpoints(status: &CheckpointStatus) -> CheckpointFacts<'_> {
    CheckpointFacts {
        enabled: status.enabled,
        saved: status.num_saved,
        failed: status.num_failed,
        next_due_s: status.next_due.map(|due| due.as_secs_f64()),
        running: status.running.as_ref().map(|running| RunningFacts {
            phase: running.phase.to_string(),
            elapsed_s: running.elapsed.as_secs_f64(),
            items_done: running.counts.items_done,
            items_total: running.counts.items_total,
            bytes_done: running.counts.bytes_done,
            bytes_total: running.counts.bytes_total,
        }),
        error: status.last.as_ref().and_then(FinishedCheckpoint::error),
        last_saved: status.last_saved.as_ref().and_then(saved),
        loaded: status.loaded.as_deref(),
    }
}

fn saved(finished: &FinishedCheckpoint) -> Option<SavedFacts<'_>> {
    let saved = finished.saved()?;
    Some(SavedFacts {
        began_at: finished.began_at.as_nanos() as f64 / 1e9,
        took_s: finished.took.as_secs_f64(),
        pause_s: finished.longest_pause.as_secs_f64(),
        location: &saved.location,
        written_bytes: saved.written_bytes,
        total_bytes: saved.total_bytes,
    })
}

fn table(status: &TableStatus) -> TableFacts<'_> {
    let (info, config) = (&status.info, &status.info.config);
    let limiter = &config.rate_limiter;
    let bound = |diff: f64| Some(diff).filter(|diff| diff.abs() < UNREACHABLE_CURSOR);
    TableFacts {
        name: &config.name,
        items: info.current_size,
        max_items: config.max_size,
        bytes: status.bytes.encoded_bytes,
        max_bytes: config.max_bytes,
        raw_bytes: status.bytes.raw_bytes,
        spilled_bytes: status.bytes.spilled_bytes,
        episodes: info.num_episodes,
        sampler: config.sampler.to_string(),
        remover: config.remover.to_string(),
        max_times_sampled: config.max_times_sampled,
        inserts: info.inserts,
        samples: info.samples,
        deletes: info.deletes,
        cursor: status.limiter_cursor,
        min_diff: bound(limiter.min_diff),
        max_diff: bound(limiter.max_diff),
        samples_per_insert: limiter.samples_per_insert,
        min_items: limiter.min_size_to_sample,
        inserts_paused: status.paused.inserts,
        samples_paused: status.paused.samples,
        insert_waits_for: status.insert_shortfall.map(|missing| missing.to_string()),
        sample_waits_for: status.sample_shortfall.map(|missing| missing.to_string()),
        waiting_inserts: status.waiting_inserts,
        waiting_samples: status.waiting_samples,
        waiters: status.waiters.iter().take(MAX_WAITERS_SHOWN).map(waiter).collect(),
    }
}

fn waiter(waiter: &WaiterInfo) -> WaiterFacts<'_> {
    WaiterFacts {
        operation: match waiter.operation {
            Operation::Insert => "insert",
            Operation::Sample => "sample",
        },
        who: &waiter.who,
        waiting_s: waiter.waiting.as_secs_f64(),
        wanted: waiter.wanted,
        reason: waiter.reason(),
    }
}

fn change(change: &LoggedChange) -> ChangeFacts<'_> {
    let LoggedChange { at, who, table, what, old, new } = change;
    ChangeFacts { at: at.as_nanos() as f64 / 1e9, who, table, what, old, new }
}
