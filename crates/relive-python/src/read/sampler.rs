//! Reads samples one by one.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relive_client::{Client, Error, ErrorKind, Sample, SampleBatch, Sampler as RustSampler};

use super::gather;
use crate::error::{OrRaise, raise, raise_kind};
use crate::interpreter::fork::Owned;
use crate::interpreter::wait::{self, Operation, Reason, seconds};

/// Reads samples of one table; an iterator of `(info, columns)`.
#[pyclass(frozen, module = "relive._native", name = "Sampler")]
pub(crate) struct Sampler {
    source: Owned<Source>,
    client: Client,
    table: String,
    /// How long `__next__` waits for a sample.
    timeout: Duration,
    /// Whether single-cell columns keep their row dimension.
    keep_rows: bool,
}

enum Source {
    /// Prefetches in the background. An error that occurred after samples arrived is kept for the next call.
    Stream { sampler: Box<RustSampler>, deferred_error: Option<Error> },
    /// Requests one sample at a time, up to this number of samples.
    Calls { left: usize },
}

impl Sampler {
    pub(crate) fn streaming(client: Client, sampler: RustSampler, timeout: Duration) -> Sampler {
        let table = sampler.table().to_owned();
        Sampler::over(
            Source::Stream { sampler: Box::new(sampler), deferred_error: None },
            client,
            table,
            timeout,
        )
    }

    /// Samples `count` items, each when it is requested.
    pub(crate) fn on_demand(client: Client, table: &str, count: usize, timeout: Duration) -> Sampler {
        Sampler::over(Source::Calls { left: count }, client, table.to_owned(), timeout)
    }

    fn over(source: Source, client: Client, table: String, timeout: Duration) -> Sampler {
        Sampler { source: Owned::new("sampler", source), client, table, timeout, keep_rows: false }
    }

    /// Returns the same sampler, with squeezing of columns enabled or disabled.
    pub(crate) fn keeping_rows(mut self, keep_rows: bool) -> Sampler {
        self.keep_rows = keep_rows;
        self
    }
}

#[pymethods]
impl Sampler {
    /// The number of values that accompany each sample.
    #[classattr]
    const NUM_INFO_TENSORS: usize = 5;

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.next_within(py, self.timeout)
    }

    /// Returns the next sample, after a wait of at most `timeout` seconds: its information and its columns.
    #[pyo3(signature = (timeout = None))]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyTuple>> {
        self.next_within(py, seconds(timeout)?)
    }

    /// Returns the samples that are ready, at most `max_samples`, after a wait of up to `timeout` seconds for the first
    /// one; empty if none arrives. Only for samplers that prefetch.
    #[pyo3(signature = (max_samples, timeout = None))]
    fn next_many<'py>(
        &self,
        py: Python<'py>,
        max_samples: usize,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let timeout = seconds(timeout)?;
        let mut source = self.source.lock(py)?;
        let Some(Source::Stream { sampler, deferred_error }) = source.as_mut() else {
            return Err(PyStopIteration::new_err("the sampler is closed"));
        };
        let ready = ready_within(sampler, deferred_error, max_samples, timeout);
        let Some(samples) = wait::now_or_wait(py, "sample", ready, || self.why())? else {
            return Err(PyStopIteration::new_err(()));
        };
        drop(source);
        samples.or_raise(py)?.into_iter().map(|sample| self.to_python(py, sample)).collect()
    }

    /// Closes the sampler; prefetched samples that were not read are lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.source.end(py)
    }
}

impl Sampler {
    fn next_within<'py>(&self, py: Python<'py>, timeout: Duration) -> PyResult<Bound<'py, PyTuple>> {
        let mut source = self.source.lock(py)?;
        let sample = match source.as_mut() {
            Some(Source::Stream { sampler, deferred_error }) => {
                match wait::now_or_wait(py, "sample", next_of(sampler, deferred_error, timeout), || {
                    self.why()
                })? {
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
        self.to_python(py, sample)
    }

    fn to_python<'py>(&self, py: Python<'py>, sample: Sample) -> PyResult<Bound<'py, PyTuple>> {
        described(py, sample, self.keep_rows)
    }

    fn call(&self, py: Python<'_>, timeout: Duration) -> PyResult<Sample> {
        let limit = (timeout != wait::FOREVER).then_some(timeout);
        let samples = call(py, "sample", &self.client, &self.table, 1, limit)?;
        let sample = samples.map_err(|error| raise_limited(py, &error, limit.is_some()))?.into_iter().next();
        sample.ok_or_else(|| PyStopIteration::new_err("the server ended the call without a sample"))
    }

    fn why<'r>(&self) -> Reason<'r> {
        wait::reason_of(&self.client, &self.table, Operation::Sample)
    }
}

/// Requests `count` samples at once and waits for them. Returns the samples that arrive within the limit, or the error
/// if none arrives.
pub(crate) fn call(
    py: Python<'_>,
    what: &str,
    client: &Client,
    table: &str,
    count: usize,
    limit: Option<Duration>,
) -> PyResult<relive_client::Result<Vec<Sample>>> {
    match client.sample_call(table, count, limit) {
        Ok(mut call) => {
            let why = || wait::reason_of(client, table, Operation::Sample);
            wait::wait_by(py, what, limit, |slice| call.wait(slice), why)
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Returns the exception of sampling. A caller that sets a limit receives the same exception for every timeout, even if
/// no server is reachable.
pub(crate) fn raise_limited(py: Python<'_>, error: &Error, has_limit: bool) -> PyErr {
    match error.kind() {
        ErrorKind::Unavailable if has_limit => raise_kind(py, ErrorKind::Timeout, error.to_string()),
        _ => raise(py, error),
    }
}

async fn next_of(
    sampler: &mut RustSampler,
    deferred_error: &mut Option<Error>,
    timeout: Duration,
) -> Option<relive_client::Result<Sample>> {
    if let Some(error) = deferred_error.take() {
        return Some(Err(error));
    }
    if timeout == wait::FOREVER { sampler.next().await } else { sampler.next_with_timeout(timeout).await }
}

/// Returns the result of `Sampler::next_many`, or `None` at the end. Dropping the future loses no samples, because it
/// holds none while it waits.
async fn ready_within(
    sampler: &mut RustSampler,
    deferred_error: &mut Option<Error>,
    max_samples: usize,
    timeout: Duration,
) -> Option<relive_client::Result<Vec<Sample>>> {
    if let Some(error) = deferred_error.take() {
        return Some(Err(error));
    }
    let first = match tokio::time::timeout(timeout, sampler.next()).await {
        Ok(Some(Ok(sample))) => sample,
        Ok(Some(Err(error))) => return Some(Err(error)),
        Ok(None) => return None,
        Err(_) => return Some(Ok(Vec::new())),
    };
    let mut samples = vec![first];
    while samples.len() < max_samples {
        match now(sampler.next()).await {
            Some(Some(Ok(sample))) => samples.push(sample),
            Some(Some(Err(error))) => {
                *deferred_error = Some(error);
                break;
            }
            // If the sampler is at its end, the next call also takes this branch.
            Some(None) | None => break,
        }
    }
    Some(Ok(samples))
}

/// Returns the output of the future if the future does not have to wait.
async fn now<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Returns `((key, probability, table_size, priority, times_sampled), [column, …])`.
pub(crate) fn to_python(py: Python<'_>, sample: Sample) -> PyResult<Bound<'_, PyTuple>> {
    described(py, sample, false)
}

fn described(py: Python<'_>, sample: Sample, keep_rows: bool) -> PyResult<Bound<'_, PyTuple>> {
    let info = sample.info();
    let info = (info.key, info.probability, info.table_size, info.priority, info.times_sampled);
    let gathered =
        gather::single(&SampleBatch::new(vec![sample]), keep_rows).map_err(|failure| failure.raise(py))?;
    let columns = gathered
        .into_iter()
        .filter_map(|column| column.into_array(py).transpose())
        .collect::<PyResult<Vec<_>>>()?;
    (info, PyList::new(py, columns)?).into_pyobject(py)
}
