//! The rules and the state of tables, as data for Python's classes.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_client::{ChunkTotals, TableStatus, Waiter, WaiterOperation};
use relive_table::TableInfo;

use super::selectors::selector_tuple;
use crate::nests::signature::TableSignature;

/// Returns the fields of `relive.reverb_types.TableInfo`.
pub(crate) fn info_dict<'py>(py: Python<'py>, info: &TableInfo) -> PyResult<Bound<'py, PyDict>> {
    let config = &info.config;
    let limiter = &config.rate_limiter;
    let dict = PyDict::new(py);
    dict.set_item("name", &config.name)?;
    dict.set_item("sampler", selector_tuple(py, config.sampler)?)?;
    dict.set_item("remover", selector_tuple(py, config.remover)?)?;
    dict.set_item("max_size", config.max_size)?;
    dict.set_item("max_times_sampled", config.max_times_sampled)?;
    dict.set_item("samples_per_insert", limiter.samples_per_insert)?;
    dict.set_item("min_size_to_sample", limiter.min_size_to_sample)?;
    dict.set_item("min_diff", limiter.min_diff)?;
    dict.set_item("max_diff", limiter.max_diff)?;
    dict.set_item("insert_completed", info.inserts)?;
    dict.set_item("sample_completed", info.samples)?;
    dict.set_item("signature", config.signature.as_ref().map(TableSignature::of))?;
    dict.set_item("current_size", info.current_size)?;
    dict.set_item("num_episodes", info.num_episodes)?;
    dict.set_item("num_deleted_episodes", info.num_deleted_episodes)?;
    dict.set_item("num_unique_samples", info.num_unique_samples)?;
    dict.set_item("worker_time_ms", (0, 0, 0, 0, 0, 0))?;
    Ok(dict)
}

/// Returns the same fields, and the fields that only a Relive server reports: bytes and waiters.
pub(crate) fn status_dict<'py>(py: Python<'py>, status: &TableStatus) -> PyResult<Bound<'py, PyDict>> {
    let dict = info_dict(py, &status.info)?;
    dict.set_item("limiter_cursor", status.limiter_cursor)?;
    dict.set_item("max_bytes", status.info.config.max_bytes)?;
    dict.set_item("shards", status.info.config.shards)?;
    dict.set_item("referenced_bytes", status.referenced_bytes)?;
    set_chunks(&dict, &status.chunks)?;
    dict.set_item("inserts_paused", status.paused.inserts)?;
    dict.set_item("samples_paused", status.paused.samples)?;
    dict.set_item("undelivered_samples", status.undelivered_samples)?;
    let waiters =
        status.waiters.iter().map(|waiter| waiter_dict(py, waiter)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("waiters", waiters)?;
    Ok(dict)
}

/// Writes the memory of chunks as entries of `dict`.
pub(crate) fn set_chunks(dict: &Bound<'_, PyDict>, chunks: &ChunkTotals) -> PyResult<()> {
    dict.set_item("num_chunks", chunks.chunks)?;
    dict.set_item("encoded_bytes", chunks.encoded_bytes)?;
    dict.set_item("raw_bytes", chunks.raw_bytes)?;
    dict.set_item("shared_bytes", chunks.shared_bytes)?;
    dict.set_item("spilled_bytes", chunks.spilled_bytes)?;
    dict.set_item("resident_bytes", chunks.resident_bytes())
}

pub(crate) fn waiter_dict<'py>(py: Python<'py>, waiter: &Waiter) -> PyResult<Bound<'py, PyDict>> {
    let operation = match waiter.operation {
        WaiterOperation::Insert => "insert",
        WaiterOperation::Sample => "sample",
        _ => {
            return Err(PyTypeError::new_err(
                "the server reports an operation that this version does not support",
            ));
        }
    };
    let dict = PyDict::new(py);
    dict.set_item("operation", operation)?;
    dict.set_item("who", &waiter.who)?;
    dict.set_item("waiting_s", waiter.waiting.as_secs_f64())?;
    dict.set_item("reason", &waiter.reason)?;
    dict.set_item("wanted", waiter.wanted)?;
    Ok(dict)
}
