//! A server's status, as data for Python's classes.

use std::time::SystemTime;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_client::{CheckpointStatus, Client, FinishedCheckpoint, RunningCheckpoint, ServerStatus};
use relive_table::Timestamp;
use relive_tensor::Codec;

use crate::tables::changes;
use crate::tables::status::{set_chunks, status_dict, waiter_dict};

/// Returns the fields of `relive.reverb_types.ServerStatus`.
pub(super) fn server<'py>(py: Python<'py>, status: &ServerStatus) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("version", &status.version)?;
    dict.set_item("uptime_s", status.uptime.as_secs_f64())?;
    dict.set_item("codecs", status.codecs.iter().map(Codec::name).collect::<Vec<_>>())?;
    dict.set_item("connections", status.connections)?;
    dict.set_item("changes", changes::logged(py, &status.changes)?)?;
    set_chunks(&dict, &status.chunks)?;
    dict.set_item("max_bytes", status.memory.max_bytes)?;
    dict.set_item("process_bytes", status.memory.process_bytes)?;
    dict.set_item("spill_error", &status.memory.spill_error)?;
    let waiters = status.memory.waiters.iter().map(|waiter| waiter_dict(py, waiter));
    dict.set_item("waiters", waiters.collect::<PyResult<Vec<_>>>()?)?;
    let mut tables = Vec::with_capacity(status.tables.len());
    for table in &status.tables {
        tables.push(status_dict(py, table)?);
    }
    dict.set_item("tables", tables)?;
    Ok(dict)
}

/// Returns the fields of `relive.checkpoints.CheckpointStatus`.
pub(super) fn checkpoints<'py>(py: Python<'py>, status: &CheckpointStatus) -> PyResult<Bound<'py, PyDict>> {
    let finished = |finished: &Option<FinishedCheckpoint>| {
        finished.as_ref().map(|finished| finished_dict(py, finished)).transpose()
    };
    let dict = PyDict::new(py);
    dict.set_item("enabled", status.enabled)?;
    dict.set_item("running", status.running.as_ref().map(|running| running_dict(py, running)).transpose()?)?;
    dict.set_item("queued", status.queued)?;
    dict.set_item("last", finished(&status.last)?)?;
    dict.set_item("last_saved", finished(&status.last_saved)?)?;
    dict.set_item("next_due_s", status.next_due.map(|due| due.as_secs_f64()))?;
    dict.set_item("loaded", status.loaded.as_deref())?;
    Ok(dict)
}

fn running_dict<'py>(py: Python<'py>, running: &RunningCheckpoint) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("trigger", running.trigger.to_string())?;
    dict.set_item("phase", running.phase.to_string())?;
    dict.set_item("began_at", seconds_of(running.began_at))?;
    dict.set_item("elapsed_s", running.elapsed.as_secs_f64())?;
    dict.set_item("items_done", running.counts.items_done)?;
    dict.set_item("items_total", running.counts.items_total)?;
    dict.set_item("bytes_done", running.counts.bytes_done)?;
    dict.set_item("bytes_total", running.counts.bytes_total)?;
    Ok(dict)
}

fn finished_dict<'py>(py: Python<'py>, finished: &FinishedCheckpoint) -> PyResult<Bound<'py, PyDict>> {
    let saved = finished.saved();
    let dict = PyDict::new(py);
    dict.set_item("trigger", finished.trigger.to_string())?;
    dict.set_item("began_at", seconds_of(finished.began_at))?;
    dict.set_item("took_s", finished.took.as_secs_f64())?;
    dict.set_item("longest_pause_s", finished.longest_pause.as_secs_f64())?;
    dict.set_item("path", saved.map(|saved| saved.location.as_str()))?;
    dict.set_item("written_bytes", saved.map_or(0, |saved| saved.written_bytes))?;
    dict.set_item("total_bytes", saved.map_or(0, |saved| saved.total_bytes))?;
    dict.set_item("error", finished.error())?;
    Ok(dict)
}

fn seconds_of(time: Timestamp) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// The fields of `relive.ServerState`.
pub(super) type ServerState = (String, &'static str, f64, String, usize, u64, u64);

/// The fields of `relive.ServerChange`.
pub(super) type ServerChange = (u64, f64, String, &'static str, String);

pub(super) fn servers(client: &Client) -> Vec<ServerState> {
    let state = |state: relive_client::ServerState| {
        let since = state.since.as_secs_f64();
        let (name, reason) = (state.standing.name(), state.reason);
        (state.address, name, since, reason, state.writers, state.times_left, state.lost_updates)
    };
    client.servers().into_iter().map(state).collect()
}

pub(super) fn server_changes(client: &Client) -> Vec<ServerChange> {
    let change = |change: relive_client::ServerChange| {
        let at = change.at.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        (change.number, at, change.address, change.event.name(), change.reason)
    };
    client.server_changes().into_iter().map(change).collect()
}
