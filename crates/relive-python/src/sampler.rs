//! Samples one by one.

use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relive_client::{Client, Sample, SampleBatch, Sampler as RustSampler};

use crate::client::seconds;
use crate::column::busy;
use crate::error::OrRaise;
use crate::gather;
use crate::wait::{self, Reason};

/// Reads samples of one table; an iterator of `(info, columns)`.
#[pyclass(frozen, module = "relive._native", name = "Sampler")]
pub(crate) struct Sampler {
    inner: Mutex<Option<RustSampler>>,
    client: Client,
    table: String,
    /// How long `__next__` waits.
    timeout: Duration,
}

impl Sampler {
    pub(crate) fn over(client: Client, sampler: RustSampler) -> Sampler {
        let table = sampler.table().to_owned();
        Sampler { inner: Mutex::new(Some(sampler)), client, table, timeout: wait::FOREVER }
    }

    /// The same, with a bound on how long the next sample may take.
    pub(crate) fn with_timeout(self, timeout: Duration) -> Sampler {
        Sampler { timeout, ..self }
    }
}

#[pymethods]
impl Sampler {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.next_within(py, self.timeout)
    }

    /// The next sample, waiting `timeout` seconds at most: its information and its columns.
    #[pyo3(signature = (timeout = None))]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyTuple>> {
        self.next_within(py, seconds(timeout)?)
    }

    /// Ends the sampler; what was fetched and not taken is lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let sampler = self.inner.try_lock().ok_or_else(busy)?.take();
        py.detach(|| drop(sampler));
        Ok(())
    }
}

impl Sampler {
    fn next_within<'py>(&self, py: Python<'py>, timeout: Duration) -> PyResult<Bound<'py, PyTuple>> {
        let mut inner = self.inner.try_lock().ok_or_else(busy)?;
        let sampler = inner.as_mut().ok_or_else(|| PyStopIteration::new_err("the sampler is closed"))?;
        match wait::now_or_wait(py, "sample", next_within(sampler, timeout), || self.why())? {
            Some(sample) => to_python(py, sample.or_raise(py)?),
            None => Err(PyStopIteration::new_err(())),
        }
    }

    fn why<'r>(&self) -> Reason<'r> {
        let (client, table) = (self.client.clone(), self.table.clone());
        Box::pin(async move { wait::reason_of(&client, &table).await })
    }
}

async fn next_within(sampler: &mut RustSampler, timeout: Duration) -> Option<relive_client::Result<Sample>> {
    if timeout == wait::FOREVER { sampler.next().await } else { sampler.next_with_timeout(timeout).await }
}

/// `((key, probability, table_size, priority, times_sampled), [column, …])`.
pub(crate) fn to_python(py: Python<'_>, sample: Sample) -> PyResult<Bound<'_, PyTuple>> {
    let info = sample.info();
    let info = (info.key, info.probability, info.table_size, info.priority, info.times_sampled);
    let gathered = gather::single(&SampleBatch::new(vec![sample])).or_raise(py)?;
    let columns = gathered.into_iter().map(|column| column.into_array(py, None)).collect::<PyResult<Vec<_>>>()?;
    (info, PyList::new(py, columns)?).into_pyobject(py)
}
