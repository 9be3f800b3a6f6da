//! Batches: samples gathered into one array per column.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relive_client::{BatchSampler, Client, SampleBatch, SampleInfo};

use crate::array;
use crate::buffer::Pool;
use crate::column::busy;
use crate::error::OrRaise;
use crate::gather;
use crate::sampler::raise_limited;
use crate::wait::{self, Reason};

/// Reads batches of one table; an iterator of `(info arrays, column arrays, lengths)`.
#[pyclass(frozen, module = "relive._native", name = "BatchIterator")]
pub(crate) struct BatchIterator {
    inner: Mutex<Option<BatchSampler>>,
    client: Client,
    table: String,
    pool: Arc<Pool>,
    pad: bool,
    has_limit: bool,
}

impl BatchIterator {
    pub(crate) fn over(client: Client, sampler: BatchSampler, pad: bool, has_limit: bool) -> BatchIterator {
        let table = sampler.table().to_owned();
        BatchIterator {
            inner: Mutex::new(Some(sampler)),
            client,
            table,
            pool: Arc::default(),
            pad,
            has_limit,
        }
    }

    fn why<'r>(&self) -> Reason<'r> {
        let (client, table) = (self.client.clone(), self.table.clone());
        Box::pin(async move { wait::reason_of(&client, &table, wait::Operation::Sample).await })
    }
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut inner = self.inner.try_lock().ok_or_else(busy)?;
        let sampler = inner.as_mut().ok_or_else(|| PyStopIteration::new_err("the iterator is closed"))?;
        match wait::now_or_wait(py, "batches", sampler.next(), || self.why())? {
            Some(batch) => {
                let batch = batch.map_err(|error| raise_limited(py, &error, self.has_limit))?;
                drop(inner);
                self.to_python(py, &batch)
            }
            None => Err(PyStopIteration::new_err(())),
        }
    }

    /// Batches that are ready, and samples that were asked for and have not come.
    #[getter]
    fn prefetched(&self) -> PyResult<(usize, usize)> {
        Ok(self.inner.try_lock().ok_or_else(busy)?.as_ref().map_or((0, 0), BatchSampler::prefetched))
    }

    /// Ends the iterator; what was fetched and not taken is lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let sampler = self.inner.try_lock().ok_or_else(busy)?.take();
        py.detach(|| drop(sampler));
        Ok(())
    }
}

impl BatchIterator {
    fn to_python<'py>(&self, py: Python<'py>, batch: &SampleBatch) -> PyResult<Bound<'py, PyTuple>> {
        let gather = if self.pad { gather::padded } else { gather::stacked };
        let gathered = py.detach(|| gather(batch, &self.pool)).or_raise(py)?;
        let mut columns = Vec::with_capacity(gathered.len());
        let mut lengths = Vec::with_capacity(gathered.len());
        for (column, rows) in gathered {
            columns.push(column.into_array(py, Some(&self.pool))?);
            lengths.push(rows.map(|rows| array::from_elements(py, &rows)).transpose()?);
        }
        let lengths = PyList::new(py, lengths)?;
        (infos(py, batch)?, PyList::new(py, columns)?, lengths).into_pyobject(py)
    }
}

/// Arrays of key, probability, table size, priority and times sampled, one element per sample.
fn infos<'py>(py: Python<'py>, batch: &SampleBatch) -> PyResult<Bound<'py, PyTuple>> {
    let numbers = |pick: fn(&SampleInfo) -> f64| batch.infos().map(pick).collect::<Vec<_>>();
    let keys: Vec<u64> = batch.infos().map(|info| info.key).collect();
    let sizes: Vec<i64> = batch.infos().map(|info| info.table_size.cast_signed()).collect();
    let times: Vec<i32> = batch.infos().map(|info| info.times_sampled).collect();
    (
        array::from_elements(py, &keys)?,
        array::from_elements(py, &numbers(|info| info.probability))?,
        array::from_elements(py, &sizes)?,
        array::from_elements(py, &numbers(|info| info.priority))?,
        array::from_elements(py, &times)?,
    )
        .into_pyobject(py)
}
