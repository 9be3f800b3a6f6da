//! Writers: environments, mostly in their own processes, that write trajectories in place.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use relive_gpu::{ErrorKind, Writer};

use super::given::checked_weight;
use super::raise::{OrRaise, invalid};
use super::settings::{GivenColumn, SchemaFields, columns_of, schema_of};
use super::steps::{check_step, column_at, dims};
use super::store::GpuStore;
use crate::arrays::buffer;
use crate::arrays::numeric_array::NumericArray;
use crate::interpreter::fork::Owned;

/// The interval between checks for signals during a wait. It is longer than a writer takes to notice that the store's
/// process has ended.
const SLICE: Duration = Duration::from_millis(200);

/// Writes trajectories into a store, usually in another process.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct GpuWriter(Owned<Writer>);

#[pymethods]
impl GpuWriter {
    /// Attaches to the store with the given name. If a schema is given, the store's schema must match it.
    #[staticmethod]
    fn attach(
        py: Python<'_>,
        name: &str,
        schema: Option<(Vec<GivenColumn<'_>>, u64)>,
    ) -> PyResult<GpuWriter> {
        let schema = match schema {
            Some((columns, max_steps)) => Some(schema_of(py, &columns, max_steps)?),
            None => None,
        };
        let writer = py.detach(|| Writer::attach(name, schema.as_ref())).or_raise(py)?;
        Ok(GpuWriter(Owned::new("writer", writer)))
    }

    /// Returns a writer in the store's own process.
    #[staticmethod]
    fn of(py: Python<'_>, store: &GpuStore) -> PyResult<GpuWriter> {
        let store = store.store(py)?;
        let writer = py.detach(|| Writer::of(&store)).or_raise(py)?;
        Ok(GpuWriter(Owned::new("writer", writer)))
    }

    /// Returns the name, dtype and shape of each column; the maximum number of steps; and the writer's number in place
    /// of the capacity.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<SchemaFields<'py>> {
        self.with(py, |writer| {
            let schema = writer.schema();
            Ok((columns_of(py, schema)?, schema.max_steps(), writer.id() as u64))
        })
    }

    /// Returns the number of steps written so far.
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |writer| Ok(writer.steps()))
    }

    /// Waits up to `timeout` seconds until the writer has a row.
    fn acquire(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.with(py, |writer| wait(py, timeout, |slice| writer.acquire(slice)))
    }

    /// Waits up to `timeout` seconds for the store's answer.
    fn wait(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.with(py, |writer| wait(py, timeout, |slice| writer.wait(slice)))
    }

    /// Passes the turn to the store, which adds its part of the current step.
    fn request(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |writer| py.detach(|| writer.request()).or_raise(py))
    }

    /// Returns the positions of the columns that the store wrote in answer to the last request.
    fn answered(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        self.with(py, |writer| {
            let columns = 0..writer.schema().columns().len();
            let answered = columns.map(|column| Ok(writer.is_answered(column)?.then_some(column)));
            let answered: relive_gpu::Result<Vec<Option<usize>>> = answered.collect();
            Ok(answered.or_raise(py)?.into_iter().flatten().collect())
        })
    }

    /// Writes a column of the current step.
    fn write(&self, py: Python<'_>, column: usize, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = NumericArray::of(array)?;
        self.with(py, |writer| {
            let schema = writer.schema();
            check_step(py, column_at(py, schema, column)?, &array, None)?;
            writer.step(column).or_raise(py)?.copy_from_slice(array.bytes());
            Ok(())
        })
    }

    /// Returns a copy of a column of the current step.
    fn read<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, |writer| {
            let described = column_at(py, writer.schema(), column)?.clone();
            let bytes = writer.step(column).or_raise(py)?;
            let mut block = buffer::zeroed(bytes.len())?;
            block.bytes_mut().copy_from_slice(bytes);
            buffer::into_array(py, block, described.dtype, &dims(&described, None))
        })
    }

    /// Completes the current step and begins the next one.
    fn advance(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |writer| writer.step_inc().or_raise(py))
    }

    /// Completes the trajectory.
    fn finish(&self, py: Python<'_>, weight: f64) -> PyResult<()> {
        let weight = checked_weight(py, weight)?;
        self.with(py, |writer| py.detach(|| writer.finish(weight)).or_raise(py))
    }

    /// Abandons the trajectory; the next one replaces it.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |writer| {
            writer.abandon();
            Ok(())
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.end(py)
    }
}

impl GpuWriter {
    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Writer) -> PyResult<T>) -> PyResult<T> {
        match self.0.lock(py)?.as_mut() {
            Some(writer) => work(writer),
            None => {
                let text = "this writer was closed".to_owned();
                Err(crate::error::raise_kind(py, relive_client::ErrorKind::Closed, text))
            }
        }
    }
}

/// Waits in slices, and runs signal handlers between them.
fn wait(
    py: Python<'_>,
    timeout: f64,
    mut act: impl FnMut(Duration) -> relive_gpu::Result<()> + Send,
) -> PyResult<()> {
    let patience = Duration::try_from_secs_f64(timeout)
        .map_err(|error| invalid(py, format!("timeout is {timeout}: {error}")))?;
    let begin = Instant::now();
    loop {
        let slice = patience.saturating_sub(begin.elapsed()).min(SLICE);
        let started = Instant::now();
        match py.detach(|| act(slice)) {
            // An error that occurs before the end of the slice is not a timeout.
            Err(error) if error.kind() == ErrorKind::Unavailable && started.elapsed() >= slice => {
                py.check_signals()?;
                if begin.elapsed() >= patience {
                    let text = format!(
                        "the writer has waited {timeout} s for its turn; check that the store's process scans, and that a row is free"
                    );
                    let kind = relive_client::ErrorKind::Timeout;
                    return Err(crate::error::raise_kind(py, kind, text));
                }
            }
            outcome => return outcome.or_raise(py),
        }
    }
}
