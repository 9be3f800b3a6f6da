//! Batches: samples gathered into one array per column.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relive_batch::Pool;
use relive_client::{BatchSampler, Client, ColumnLayout, ErrorKind, Result, Sample, SampleBatch};

use crate::array;
use crate::error::raise_kind;
use crate::gather::{self, Column, Failure, Places};
use crate::infos::Infos;
use crate::out::{Out, Writing};
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
    out: Option<Out>,
}

enum Source {
    /// Takes samples in advance, or within the process.
    Sampler(Box<BatchSampler>),
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
        BatchIterator::new(Source::Sampler(Box::new(sampler)), client, table, pad, has_limit)
    }

    fn new(source: Source, client: Client, table: String, pad: bool, has_limit: bool) -> BatchIterator {
        let source = Owned::new("iterator of batches", source);
        BatchIterator { source, client, table, pool: Arc::default(), pad, has_limit, out: None }
    }

    /// Gathers into arrays of the caller.
    pub(crate) fn into_out(self, out: Option<Out>) -> BatchIterator {
        BatchIterator { out, ..self }
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

    /// `(info arrays, column arrays, lengths)`; no lengths where no samples differ in any.
    fn to_python<'py>(&self, py: Python<'py>, batch: &SampleBatch) -> PyResult<Bound<'py, PyTuple>> {
        let (infos, gathered) = match &self.out {
            None => {
                let all =
                    || Ok((Infos::of(batch, &self.pool)?, self.gather(batch, &self.layouts(batch)?, None)?));
                py.detach(all)
            }
            Some(out) => {
                let layouts = py.detach(|| self.layouts(batch)).map_err(|failure| failure.raise(py))?;
                let layouts = if self.pad { out.widened(py, layouts) } else { layouts };
                let mut writing = out.begin(py, &layouts)?;
                let given = Some(&mut writing);
                py.detach(|| Ok((Infos::of(batch, &self.pool)?, self.gather(batch, &layouts, given)?)))
            }
        }
        .map_err(|failure: Failure| failure.raise(py))?;
        let has_lengths = gathered.iter().any(|(_, rows)| rows.is_some());
        let columns = PyList::empty(py);
        let lengths = has_lengths.then(|| PyList::empty(py));
        for (number, (column, rows)) in gathered.into_iter().enumerate() {
            let own = || self.out.as_ref().and_then(|out| out.array(py, number));
            columns.append(column.into_array(py)?.or_else(own))?;
            if let Some(lengths) = &lengths {
                lengths.append(rows.map(|rows| array::from_elements(py, &rows)).transpose()?)?;
            }
        }
        (infos.into_arrays(py)?, columns, lengths).into_pyobject(py)
    }

    fn layouts(&self, batch: &SampleBatch) -> std::result::Result<Vec<ColumnLayout>, Failure> {
        Ok(if self.pad { batch.columns_padded()? } else { batch.columns()? })
    }

    fn gather(
        &self,
        batch: &SampleBatch,
        layouts: &[ColumnLayout],
        writing: Option<&mut Writing>,
    ) -> std::result::Result<Vec<Column>, Failure> {
        let places = match writing {
            Some(writing) => Places::given(&self.pool, writing.slices().collect()),
            None => Places::of(&self.pool),
        };
        if self.pad {
            gather::padded(batch, layouts, places)
        } else {
            gather::stacked(batch, layouts, places)
        }
    }
}
