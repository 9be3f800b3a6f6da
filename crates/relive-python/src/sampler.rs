//! Samples one by one.

use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relive_client::{Client, Error, ErrorKind, Sample, SampleBatch, Sampler as RustSampler};

use crate::client::seconds;
use crate::column::busy;
use crate::error::{OrRaise, raise, raise_kind};
use crate::gather;
use crate::wait::{self, Reason};

/// Reads samples of one table; an iterator of `(info, columns)`.
#[pyclass(frozen, module = "relive._native", name = "Sampler")]
pub(crate) struct Sampler {
    source: Mutex<Option<Source>>,
    client: Client,
    table: String,
    /// How long `__next__` waits.
    timeout: Duration,
}

enum Source {
    /// Fetches ahead in the background.
    Stream(RustSampler),
    /// Asks for one sample when it is wanted, until there were as many as this.
    Calls { left: usize },
}

impl Sampler {
    pub(crate) fn streaming(client: Client, sampler: RustSampler, timeout: Duration) -> Sampler {
        let table = sampler.table().to_owned();
        Sampler { source: Mutex::new(Some(Source::Stream(sampler))), client, table, timeout }
    }

    /// Samples `count` items, each when it is asked for.
    pub(crate) fn on_demand(client: Client, table: &str, count: usize, timeout: Duration) -> Sampler {
        let source = Source::Calls { left: count };
        Sampler { source: Mutex::new(Some(source)), client, table: table.to_owned(), timeout }
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
        let source = self.source.try_lock().ok_or_else(busy)?.take();
        py.detach(|| drop(source));
        Ok(())
    }
}

impl Sampler {
    fn next_within<'py>(&self, py: Python<'py>, timeout: Duration) -> PyResult<Bound<'py, PyTuple>> {
        let mut source = self.source.try_lock().ok_or_else(busy)?;
        let sample = match source.as_mut() {
            Some(Source::Stream(sampler)) => {
                match wait::now_or_wait(py, "sample", next_of(sampler, timeout), || self.why())? {
                    Some(sample) => {
                        sample.map_err(|error| raise_limited(py, &error, timeout != wait::FOREVER))?
                    }
                    None => return Err(PyStopIteration::new_err(())),
                }
            }
            Some(Source::Calls { left: 0 }) => return Err(PyStopIteration::new_err(())),
            Some(Source::Calls { left }) => {
                let sample = self.call(py, timeout)?;
                *left -= 1;
                sample
            }
            None => return Err(PyStopIteration::new_err("the sampler is closed")),
        };
        drop(source);
        to_python(py, sample)
    }

    fn call(&self, py: Python<'_>, timeout: Duration) -> PyResult<Sample> {
        let limit = (timeout != wait::FOREVER).then_some(timeout);
        let mut call = self.client.sample_call(&self.table, 1, limit).or_raise(py)?;
        let samples = wait::wait_by(py, "sample", limit, |slice| call.wait(slice), || self.why())?;
        let sample = samples.map_err(|error| raise_limited(py, &error, limit.is_some()))?.into_iter().next();
        sample.ok_or_else(|| PyStopIteration::new_err("the server ended the call without a sample"))
    }

    fn why<'r>(&self) -> Reason<'r> {
        let (client, table) = (self.client.clone(), self.table.clone());
        Box::pin(async move { wait::reason_of(&client, &table, wait::Operation::Sample).await })
    }
}

/// The exception of sampling. Whoever sets a limit wants one answer for "not in time", also when the reason is that there is
/// no server.
pub(crate) fn raise_limited(py: Python<'_>, error: &Error, has_limit: bool) -> PyErr {
    match error.kind() {
        ErrorKind::Unavailable if has_limit => raise_kind(py, ErrorKind::Timeout, error.to_string()),
        _ => raise(py, error),
    }
}

async fn next_of(sampler: &mut RustSampler, timeout: Duration) -> Option<relive_client::Result<Sample>> {
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
