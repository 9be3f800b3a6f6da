//! A table's configuration, and its state once a server serves it.

use std::sync::OnceLock;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relive_client::{ChunkTotals, TableStatus, Waiter, WaiterOperation};
use relive_engine::TableHandle;
use relive_table::{Extension, RateLimiterConfig, SelectorKind, Table as PureTable, TableConfig, TableInfo};

use crate::error::invalid;
use crate::extension::TableExtension;
use crate::spec;

/// One table of a server.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Table {
    config: TableConfig,
    extensions: Vec<Py<TableExtension>>,
    /// Set when a server begins to serve the table.
    handle: OnceLock<TableHandle>,
}

impl Table {
    pub(crate) fn config(&self) -> &TableConfig {
        &self.config
    }

    pub(crate) fn build_extensions(&self) -> Vec<Box<dyn Extension>> {
        self.extensions.iter().map(|extension| extension.get().build()).collect()
    }

    /// Binds the table to its server; fails if it already has one.
    pub(crate) fn serve_as(&self, handle: &TableHandle) -> PyResult<()> {
        self.handle.set(handle.clone()).map_err(|_| {
            PyValueError::new_err(format!(
                "table {:?} already belongs to a server; Table.replace() creates an empty one with the same rules",
                self.config.name
            ))
        })
    }

    pub(crate) fn has_extensions(&self) -> bool {
        !self.extensions.is_empty()
    }

    pub(crate) fn is_served(&self) -> bool {
        self.handle.get().is_some()
    }

    /// A table with the same rules that is not served, to query its limiter.
    fn idle(&self) -> PyResult<PureTable> {
        PureTable::new(self.config.clone(), Vec::new()).map_err(invalid)
    }
}

#[pymethods]
impl Table {
    /// `max_bytes` may be `None`; `sampler` and `remover` are `(kind, *arguments)`, `limiter` is
    /// `(samples_per_insert, min_size_to_sample, min_diff, max_diff)`, `signature` is a nest of array specs, and
    /// `extensions` lists the table's extensions.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the rules of a table, which Python names")]
    fn new(
        name: String,
        sampler: &Bound<'_, PyTuple>,
        remover: &Bound<'_, PyTuple>,
        max_size: u64,
        max_bytes: Option<u64>,
        max_times_sampled: i32,
        shards: u32,
        seed: Option<u64>,
        allow_never_sampled: bool,
        limiter: (f64, i64, f64, f64),
        signature: &Bound<'_, PyAny>,
        extensions: Vec<Py<TableExtension>>,
    ) -> PyResult<Table> {
        let (samples_per_insert, min_size_to_sample, min_diff, max_diff) = limiter;
        let mut config = TableConfig::new(name)
            .sampler(selector(sampler)?)
            .remover(selector(remover)?)
            .max_size(max_size)
            .max_times_sampled(max_times_sampled)
            .rate_limiter(RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff });
        (config.max_bytes, config.shards, config.seed) = (max_bytes, shards, seed);
        config.allow_never_sampled = allow_never_sampled;
        if let Some(signature) = spec::to_signature(signature)? {
            config = config.signature(signature);
        }
        config.validate().map_err(invalid)?;
        Ok(Table { config, extensions, handle: OnceLock::new() })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.config.name
    }

    /// Rules, sizes and counters, and the waiters.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(handle) = self.handle.get() else {
            let dict = info_dict(py, &self.idle()?.info())?;
            dict.set_item("max_bytes", self.config.max_bytes)?;
            dict.set_item("shards", self.config.shards)?;
            return Ok(dict);
        };
        status_dict(py, &TableStatus::from(py.detach(|| handle.status())))
    }

    fn can_sample(&self, py: Python<'_>, count: i64) -> PyResult<bool> {
        match self.handle.get() {
            Some(handle) => py.detach(|| handle.can_sample(count)).map_err(invalid),
            None => self.idle()?.can_sample(count).map_err(invalid),
        }
    }

    fn can_insert(&self, py: Python<'_>, count: i64) -> PyResult<bool> {
        match self.handle.get() {
            Some(handle) => py.detach(|| handle.can_insert(count)).map_err(invalid),
            None => self.idle()?.can_insert(count).map_err(invalid),
        }
    }
}

fn selector(spec: &Bound<'_, PyTuple>) -> PyResult<SelectorKind> {
    let kind: String = spec.get_item(0)?.extract()?;
    Ok(match kind.as_str() {
        "fifo" => SelectorKind::Fifo,
        "lifo" => SelectorKind::Lifo,
        "uniform" => SelectorKind::Uniform,
        "without_replacement" => SelectorKind::WithoutReplacement,
        "min_heap" => SelectorKind::MinHeap,
        "max_heap" => SelectorKind::MaxHeap,
        "prioritized" => SelectorKind::Prioritized { exponent: spec.get_item(1)?.extract()? },
        other => return Err(PyTypeError::new_err(format!("there is no selector {other:?}"))),
    })
}

fn selector_tuple<'py>(py: Python<'py>, kind: SelectorKind) -> PyResult<Bound<'py, PyTuple>> {
    let name = match kind {
        SelectorKind::Fifo => "fifo",
        SelectorKind::Lifo => "lifo",
        SelectorKind::Uniform => "uniform",
        SelectorKind::WithoutReplacement => "without_replacement",
        SelectorKind::MinHeap => "min_heap",
        SelectorKind::MaxHeap => "max_heap",
        SelectorKind::Prioritized { exponent } => return ("prioritized", exponent).into_pyobject(py),
    };
    (name,).into_pyobject(py)
}

/// The fields of `relive.reverb_types.TableInfo`.
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
    let signature =
        config.signature.as_ref().map(|signature| spec::from_signature(py, signature)).transpose()?;
    dict.set_item("signature", signature)?;
    dict.set_item("current_size", info.current_size)?;
    dict.set_item("num_episodes", info.num_episodes)?;
    dict.set_item("num_deleted_episodes", info.num_deleted_episodes)?;
    dict.set_item("num_unique_samples", info.num_unique_samples)?;
    dict.set_item("worker_time_ms", (0, 0, 0, 0, 0, 0))?;
    Ok(dict)
}

/// The same, with the data that only a Relive server has: bytes and waiters.
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

/// The memory of chunks, as entries of `dict`.
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
