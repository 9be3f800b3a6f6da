//! A table's configuration, and its state once a server serves it.

use std::sync::OnceLock;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relive_client::TableStatus;
use relive_engine::TableHandle;
use relive_table::{Extension, RateLimiterConfig, Table as PureTable, TableConfig};

use super::extension::TableExtension;
use super::selectors::selector;
use super::status::{info_dict, status_dict};
use crate::error::invalid;
use crate::nests::signature;

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

    /// Returns a table with the same rules that is not served, to query its limiter.
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
    #[expect(
        clippy::too_many_arguments,
        reason = "the rules of a table, which are keyword arguments in Python"
    )]
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
        if let Some(signature) = signature::to_signature(signature)? {
            config = config.signature(signature);
        }
        config.validate().map_err(invalid)?;
        Ok(Table { config, extensions, handle: OnceLock::new() })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the rules, sizes and counters, and the waiters.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(handle) = self.handle.get() else {
            let dict = info_dict(py, &self.idle()?.info())?;
            dict.set_item("max_bytes", self.config.max_bytes)?;
            dict.set_item("shards", self.config.shards)?;
            return Ok(dict);
        };
        status_dict(py, &TableStatus::from(py.detach(|| handle.status())))
    }

    /// Returns the number of items.
    fn current_size(&self, py: Python<'_>) -> u64 {
        self.handle.get().map_or(0, |handle| py.detach(|| handle.info().current_size))
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
