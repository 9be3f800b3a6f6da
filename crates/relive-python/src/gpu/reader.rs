//! A store that another process created.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_gpu::{MetricsSnapshot, Reader};

use super::loader::{GpuLoader, Settings};
use super::owned::Shared;
use super::raise::OrRaise;
use super::settings::{GivenColumn, SchemaFields, columns_of, schema_of};
use crate::arrays::array::from_elements;

/// Reads a store that another process created.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct GpuReader(Shared<Reader>);

impl GpuReader {
    /// Returns the underlying reader.
    pub(super) fn reader(&self, py: Python<'_>) -> PyResult<Reader> {
        self.0.get(py)
    }
}

#[pymethods]
impl GpuReader {
    /// Attaches to the store with the given name. If a schema is given, the store's schema must match it.
    #[staticmethod]
    fn attach(
        py: Python<'_>,
        name: &str,
        schema: Option<(Vec<GivenColumn<'_>>, u64)>,
    ) -> PyResult<GpuReader> {
        let schema = match schema {
            Some((columns, max_steps)) => Some(schema_of(py, &columns, max_steps)?),
            None => None,
        };
        let reader = py.detach(|| Reader::attach(name, schema.as_ref())).or_raise(py)?;
        Ok(GpuReader(Shared::new("reader", reader)))
    }

    /// Returns the name, dtype and shape of each column; the maximum number of steps; the capacity.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<SchemaFields<'py>> {
        let reader = self.0.get(py)?;
        Ok((columns_of(py, reader.schema())?, reader.schema().max_steps(), reader.capacity()))
    }

    /// Returns the store's rank and the number of ranks.
    fn shard(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let shard = self.0.get(py)?.shard();
        Ok((shard.rank(), shard.ranks()))
    }

    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        weights_of(py, &self.0.get(py)?)
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        metrics_of(py, &self.0.get(py)?.metrics())
    }

    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python dictionary")]
    fn loader(&self, py: Python<'_>, settings: Settings<'_>) -> PyResult<GpuLoader> {
        GpuLoader::new(py, self.0.get(py)?, None, &settings)
    }

    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}

/// Returns the weights of all rows.
pub(super) fn weights_of<'py>(py: Python<'py>, reader: &Reader) -> PyResult<Bound<'py, PyAny>> {
    let rows = usize::try_from(reader.capacity()).unwrap_or(usize::MAX);
    let read = py.detach(|| {
        let mut weights = vec![0.0; rows];
        reader.read_weights(&mut weights).map(|()| weights)
    });
    from_elements(py, &read.or_raise(py)?)
}

/// Returns the counters by name; times are in seconds.
pub(super) fn metrics_of<'py>(py: Python<'py>, metrics: &MetricsSnapshot) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for (name, count) in [
        ("inserted_rows", metrics.inserted_rows),
        ("inserted_bytes", metrics.inserted_bytes),
        ("aborted_rows", metrics.aborted_rows),
        ("collects", metrics.collects),
        ("collected_rows", metrics.collected_rows),
        ("collected_bytes", metrics.collected_bytes),
        ("waits", metrics.waits),
        ("stale_updates", metrics.stale_updates),
        ("dead_readers", metrics.dead_readers),
        ("dead_writers", metrics.dead_writers),
    ] {
        named.set_item(name, count)?;
    }
    named.set_item("collect_s", metrics.collect_time.as_secs_f64())?;
    named.set_item("wait_s", metrics.wait_time.as_secs_f64())?;
    let evictions = PyDict::new(py);
    let names = ["no_free", "max_selectable", "exhausted", "removed"];
    for (name, (_, count)) in names.into_iter().zip(metrics.evictions) {
        evictions.set_item(name, count)?;
    }
    named.set_item("evictions", evictions)?;
    named.set_item("ages", metrics.ages.clone())?;
    Ok(named)
}
