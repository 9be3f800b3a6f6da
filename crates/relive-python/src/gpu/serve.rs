//! The store's side of writers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use relive_gpu::{Column, Inserted, Request, Scan, Store};

use super::changes::Hub;
use super::owned::Shared;
use super::raise::{OrRaise, invalid};
use super::removal;
use super::steps::{check_step, column_at, dims};
use crate::arrays::buffer;
use crate::arrays::numeric_array::NumericArray;

/// The interval between checks for signals during a wait.
const SLICE: Duration = Duration::from_millis(50);

/// A request: writer, index, step, generation.
pub(super) type PyRequest = (usize, u64, u64, u64);

/// Requests; finished trajectories as index and generation; the numbers of abandoned trajectories and of writers that
/// are waiting for a row.
pub(super) type Scanned = (Vec<PyRequest>, Vec<(u64, u64)>, u64, u64);

/// Handles requests from writers. Waits for a request until `timeout` seconds have passed or the store is closed.
pub(super) fn scan(py: Python<'_>, hub: &Shared<Arc<Hub>>, timeout: f64) -> PyResult<Scan> {
    let patience = Duration::try_from_secs_f64(timeout)
        .map_err(|error| invalid(py, format!("timeout is {timeout}: {error}")))?;
    let begin = Instant::now();
    loop {
        let hub = hub.get(py)?;
        let store = hub.store();
        let found = py.detach(|| store.scan()).or_raise(py)?;
        let left = patience.saturating_sub(begin.elapsed());
        if has_news(&found) || left.is_zero() || removal::has_raised() {
            return Ok(found);
        }
        py.detach(|| store.wait_for_writers(left.min(SLICE)));
        py.check_signals()?;
    }
}

/// Returns the results of a scan in Python's form.
pub(super) fn scanned(found: Scan) -> Scanned {
    let Scan { requests, finished, aborted, starved, .. } = found;
    let requests = requests.into_iter().map(|found| {
        let Request { slot, index, step, generation } = found;
        (slot, index, step, generation)
    });
    let finished = finished.into_iter().map(|Inserted { index, generation }| (index, generation));
    (requests.collect(), finished.collect(), aborted, starved)
}

/// Returns requests that Python passes back.
pub(super) fn requests_of(given: &[PyRequest]) -> Vec<Request> {
    let request = |&(slot, index, step, generation)| Request { slot, index, step, generation };
    given.iter().map(request).collect()
}

fn has_news(found: &Scan) -> bool {
    found.aborted > 0 || !found.requests.is_empty() || !found.finished.is_empty()
}

/// Returns a column of the current steps of the writers, one step after the other; zeros for a writer that has ended.
pub(super) fn observe<'py>(
    py: Python<'py>,
    store: &Store,
    requests: &[Request],
    column: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let described = column_at(py, store.schema(), column)?;
    let step = bytes_of(described);
    let mut block = buffer::zeroed(step.saturating_mul(requests.len()))?;
    let bytes = block.bytes_mut();
    py.detach(|| {
        let mut steps = requests.iter().enumerate();
        steps.try_for_each(|(at, request)| {
            store.observe(request, column, &mut bytes[at * step..(at + 1) * step]).map(drop)
        })
    })
    .or_raise(py)?;
    buffer::into_array(py, block, described.dtype, &dims(described, Some(requests.len())))
}

/// Writes a column of the writers' current steps, except those of writers that have ended.
pub(super) fn answer(
    py: Python<'_>,
    store: &Store,
    requests: &[Request],
    column: usize,
    array: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let array = NumericArray::of(array)?;
    let described = column_at(py, store.schema(), column)?;
    check_step(py, described, &array, Some(requests.len()))?;
    let (step, bytes) = (bytes_of(described), array.bytes());
    py.detach(|| {
        let mut steps = requests.iter().enumerate();
        steps.try_for_each(|(at, request)| {
            store.answer(request, column, &bytes[at * step..(at + 1) * step]).map(drop)
        })
    })
    .or_raise(py)
}

/// Returns the number of bytes of a step, which fits in memory.
fn bytes_of(column: &Column) -> usize {
    column.step_bytes().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
}
