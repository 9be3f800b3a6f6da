//! The status of checkpoints, as data for Python's classes.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_client::{CheckpointStatus, FinishedCheckpoint, RunningCheckpoint};
use relive_table::Timestamp;

/// The fields of `relive.checkpoints.CheckpointStatus`.
pub(crate) fn dict<'py>(py: Python<'py>, status: &CheckpointStatus) -> PyResult<Bound<'py, PyDict>> {
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
    dict.set_item("began_at", seconds(running.began_at))?;
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
    dict.set_item("began_at", seconds(finished.began_at))?;
    dict.set_item("took_s", finished.took.as_secs_f64())?;
    dict.set_item("longest_pause_s", finished.longest_pause.as_secs_f64())?;
    dict.set_item("path", saved.map(|saved| saved.location.as_str()))?;
    dict.set_item("written_bytes", saved.map_or(0, |saved| saved.written_bytes))?;
    dict.set_item("total_bytes", saved.map_or(0, |saved| saved.total_bytes))?;
    dict.set_item("error", finished.error())?;
    Ok(dict)
}

fn seconds(time: Timestamp) -> f64 {
    time.as_nanos() as f64 / 1e9
}
