//! Batches: samples gathered into one array per column.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relive_client::{BatchSampler, Client, ErrorKind, Result, Sample, SampleBatch, SampleInfo};

use crate::array;
use crate::buffer::Pool;
use crate::error::raise_kind;
use crate::gather;
use crate::process::Owned;
use crate::sampler::{self, raise_limited};
use crate::wait::{self, Operation};

/// Reads batches of one table; an iterator of `(info arrays, column arrays, lengths)`.
#[pyclass(frozen, module = "relive._native", name = "BatchIterator")]
pub(crate) struct BatchIterator {
    source: Owned<Source>,
    client: Client,
    table: String,
    pool: Arc<Pool>,
    pad: bool,
    has_limit: bool,
}

enum Source {
    /// Takes samples in advance, or within the process.
    Sampler(BatchSampler),
    /// Asks for what a batch lacks when it is wanted, and takes the request back when the time is up. Over a network only
    /// this takes nothing that is not handed out.
    Calls(Calls),
}

/// Batches made of calls.
pub(crate) struct Calls {
    batch_size: usize,
    batches_left: Option<usize>,
    limit: Option<Duration>,
    ready: Vec<Sample>,
}

impl Calls {
    pub(crate) fn new(batch_size: usize, max_batches: Option<usize>, limit: Option<Duration>) -> Calls {
        Calls { batch_size, batches_left: max_batches, limit, ready: Vec::new() }
    }
}

impl BatchIterator {
    /// Batches of single calls, exactly what is handed out.
    pub(crate) fn exact(client: Client, table: &str, calls: Calls, pad: bool) -> BatchIterator {
        let has_limit = calls.limit.is_some();
        BatchIterator::new(Source::Calls(calls), client, table.to_owned(), pad, has_limit)
    }

    pub(crate) fn over(client: Client, sampler: BatchSampler, pad: bool, has_limit: bool) -> BatchIterator {
        let table = sampler.table().to_owned();
        BatchIterator::new(Source::Sampler(sampler), client, table, pad, has_limit)
    }

    fn new(source: Source, client: Client, table: String, pad: bool, has_limit: bool) -> BatchIterator {
        let source = Owned::new("iterator of batches", source);
        BatchIterator { source, client, table, pool: Arc::default(), pad, has_limit }
    }
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut source = self.source.lock(py)?;
        let batch = match source.as_mut() {
            Some(Source::Sampler(sampler)) => {
                let why = || wait::reason_of(&self.client, &self.table, Operation::Sample);
                wait::now_or_wait(py, "batches", sampler.next(), why)?
            }
            Some(Source::Calls(calls)) => self.call(py, calls)?,
            None => return Err(PyStopIteration::new_err("the iterator is closed")),
        };
        drop(source);
        match batch {
            Some(batch) => {
                let batch = batch.map_err(|error| raise_limited(py, &error, self.has_limit))?;
                self.to_python(py, &batch)
            }
            None => Err(PyStopIteration::new_err(())),
        }
    }

    /// Batches that are ready, and samples that were asked for and have not come.
    #[getter]
    fn prefetched(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        Ok(match self.source.lock(py)?.as_ref() {
            Some(Source::Sampler(sampler)) => sampler.prefetched(),
            Some(Source::Calls(_)) | None => (0, 0),
        })
    }

    /// Ends the iterator; what was fetched and not taken is lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.source.end(py)
    }
}

impl BatchIterator {
    /// The next batch of single calls; what came of one that is not full in time stays for the next.
    fn call(&self, py: Python<'_>, calls: &mut Calls) -> PyResult<Option<Result<SampleBatch>>> {
        if calls.batches_left == Some(0) {
            return Ok(None);
        }
        let started = Instant::now();
        while calls.ready.len() < calls.batch_size {
            let missing = calls.batch_size - calls.ready.len();
            let left = calls.limit.map(|limit| limit.saturating_sub(started.elapsed()));
            match sampler::call(py, "batches", &self.client, &self.table, missing, left)? {
                Ok(samples) => calls.ready.extend(samples),
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    let (had, wanted) = (calls.ready.len(), calls.batch_size);
                    let text = format!("{error} ({had} of {wanted} samples of the batch were there)");
                    return Err(raise_kind(py, ErrorKind::Timeout, text));
                }
                Err(error) => return Ok(Some(Err(error))),
            }
        }
        if let Some(left) = &mut calls.batches_left {
            *left -= 1;
        }
        Ok(Some(Ok(SampleBatch::new(std::mem::take(&mut calls.ready)))))
    }

    fn to_python<'py>(&self, py: Python<'py>, batch: &SampleBatch) -> PyResult<Bound<'py, PyTuple>> {
        let gather = if self.pad { gather::padded } else { gather::stacked };
        let gathered = py.detach(|| gather(batch, &self.pool)).map_err(|failure| failure.raise(py))?;
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
