//! Batches: samples gathered into one array per column.

use std::sync::Arc;

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relive_batch::Pool;
use relive_client::{BatchSampler, Client, ColumnLayout, SampleBatch};
use relive_tensor::Nest;

use super::gather::{self, Column, Failure, Places};
use super::infos::Infos;
use super::out_arrays::{Out, Writing};
use super::sampler::raise_limited;
use crate::arrays::array;
use crate::error::OrRaise;
use crate::interpreter::fork::Owned;
use crate::interpreter::lock::Brief;
use crate::interpreter::wait::{self, Operation};
use crate::nests::structure;

/// Reads batches from one table; an iterator of `(info arrays, column arrays, lengths, names)`.
#[pyclass(frozen, module = "relive._native", name = "BatchIterator")]
pub(crate) struct BatchIterator {
    source: Owned<BatchSampler>,
    client: Client,
    table: String,
    has_limit: bool,
    presenter: Presenter,
}

impl BatchIterator {
    pub(crate) fn new(client: Client, sampler: BatchSampler, pad: bool, has_limit: bool) -> BatchIterator {
        let (table, source) = (sampler.table().to_owned(), Owned::new("iterator of batches", sampler));
        BatchIterator { source, client, table, has_limit, presenter: Presenter::new(pad.then_some(0)) }
    }

    /// Gathers into the caller's arrays.
    pub(crate) fn into_out(mut self, out: Option<Out>) -> BatchIterator {
        self.presenter.out = out;
        self
    }
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut source = self.source.lock(py)?;
        let Some(sampler) = source.as_mut() else {
            return Err(PyStopIteration::new_err("the iterator is closed"));
        };
        let why = || wait::reason_of(&self.client, &self.table, Operation::Sample);
        let batch = wait::now_or_wait(py, "batches", sampler.next(), why)?;
        drop(source);
        match batch {
            Some(batch) => {
                let batch = batch.map_err(|error| raise_limited(py, &error, self.has_limit))?;
                self.presenter.show(py, &batch)
            }
            None => Err(PyStopIteration::new_err(())),
        }
    }

    /// Returns the number of batches that are ready, and the number of samples that were requested but have not
    /// arrived.
    #[getter]
    fn prefetched(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        Ok(self.source.lock(py)?.as_ref().map_or((0, 0), BatchSampler::prefetched))
    }

    /// Closes the iterator; prefetched batches that were not read are lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.source.end(py)
    }
}

/// Converts batches to arrays.
pub(crate) struct Presenter {
    pool: Arc<Pool>,
    pad: Option<u32>,
    out: Option<Out>,
    /// The names of the previous batch, as Python objects.
    names: Brief<Option<Arc<Names>>>,
}

/// The names of a batch's columns, in Rust and in Python; the names in Python are `None` if Python cannot represent
/// them.
struct Names {
    kept: Arc<Nest<()>>,
    shown: Option<Py<PyAny>>,
}

impl Presenter {
    /// With `pad`, columns of items are padded with zeros to the longest item, and to at least this number of rows.
    pub(crate) fn new(pad: Option<u32>) -> Presenter {
        Presenter { pool: Arc::default(), pad, out: None, names: Brief::default() }
    }

    /// Returns the names of the columns of `batch`: the same object as long as they do not change.
    fn names(&self, py: Python<'_>, batch: &SampleBatch) -> PyResult<Option<Py<PyAny>>> {
        let Some(kept) = batch.names().or_raise(py)? else { return Ok(None) };
        let known = self.names.get().filter(|names| Arc::ptr_eq(&names.kept, kept) || names.kept == *kept);
        if let Some(known) = known {
            return Ok(known.shown.as_ref().map(|shown| shown.clone_ref(py)));
        }
        let shown = structure::to_python(py, kept).map(Bound::unbind);
        let names = Names { kept: Arc::clone(kept), shown: shown.as_ref().map(|shown| shown.clone_ref(py)) };
        self.names.replace(Some(Arc::new(names)));
        Ok(shown)
    }

    /// Returns `(info arrays, column arrays, lengths, names)`: `lengths` is `None` if all samples have the same length,
    /// and `names` if no writer has declared names.
    pub(crate) fn show<'py>(&self, py: Python<'py>, batch: &SampleBatch) -> PyResult<Bound<'py, PyTuple>> {
        let names = self.names(py, batch)?;
        let (infos, gathered) = match &self.out {
            None => {
                let all =
                    || Ok((Infos::of(batch, &self.pool)?, self.gather(batch, &self.layouts(batch)?, None)?));
                py.detach(all)
            }
            Some(out) => {
                let layouts = py.detach(|| self.layouts(batch)).map_err(|failure| failure.raise(py))?;
                let layouts = if self.pad.is_some() { out.widened(py, layouts) } else { layouts };
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
        (infos.into_arrays(py)?, columns, lengths, names).into_pyobject(py)
    }

    fn layouts(&self, batch: &SampleBatch) -> Result<Vec<ColumnLayout>, Failure> {
        let Some(at_least) = self.pad else { return Ok(batch.columns()?) };
        let mut layouts = batch.columns_padded()?;
        layouts.iter_mut().flat_map(|layout| &mut layout.rows).for_each(|rows| *rows = at_least.max(*rows));
        Ok(layouts)
    }

    fn gather(
        &self,
        batch: &SampleBatch,
        layouts: &[ColumnLayout],
        writing: Option<&mut Writing>,
    ) -> Result<Vec<Column>, Failure> {
        let places = match writing {
            Some(writing) => Places::given(&self.pool, writing.slices().collect()),
            None => Places::of(&self.pool),
        };
        if self.pad.is_some() {
            gather::padded(batch, layouts, places)
        } else {
            gather::stacked(batch, layouts, places)
        }
    }
}
