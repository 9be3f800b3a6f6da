//! Batches as numpy arrays that own them.
#![expect(unsafe_code, reason = "memory of batches becomes arrays; the block says why it is sound")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use relive_gpu::{Batch, Trajectory};

use super::draw::Drawn;
use super::raise::OrRaise;
use crate::arrays::array::from_elements;
use crate::arrays::buffer;

/// The number of batches whose memory numpy arrays are using.
#[derive(Clone, Default)]
pub(super) struct LentCount(Arc<AtomicUsize>);

/// The maximum number of batches whose memory is lent to numpy arrays at the same time. Further batches are copied, so
/// that a ring with this many extra buffers always has memory for the next batch.
pub(super) const MAX_LENT: usize = 3;

/// A batch that arrays view. Its memory returns to the ring when all of the arrays are gone.
#[pyclass(frozen, module = "relive._native")]
struct LentBatch {
    _batch: Batch,
    lent: LentCount,
}

impl Drop for LentBatch {
    fn drop(&mut self) {
        self.lent.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Arrays of windows, valid steps per window, and the rows: indices, generations, lengths, current steps, importance
/// weights and probabilities.
pub(super) type Parts<'py> = (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, [Bound<'py, PyAny>; 6]);

/// Returns a batch as arrays.
pub(super) fn to_python<'py>(
    py: Python<'py>,
    batch: Batch,
    drawn: &Drawn,
    lent: &LentCount,
) -> PyResult<Parts<'py>> {
    let valid = (0..batch.columns()).map(|window| valid_of(py, &batch, window)).collect::<PyResult<_>>()?;
    let rows = rows_of(py, batch.rows(), drawn)?;
    let arrays = if lent.0.load(Ordering::Relaxed) < MAX_LENT {
        lend(py, batch, lent.clone())?
    } else {
        (0..batch.columns()).map(|window| copy_of(py, &batch, window)).collect::<PyResult<_>>()?
    };
    Ok((arrays, valid, rows))
}

fn lend<'py>(py: Python<'py>, mut batch: Batch, lent: LentCount) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut windows = Vec::with_capacity(batch.columns());
    for window in 0..batch.columns() {
        let (dtype, dims) = (batch.column(window).or_raise(py)?.dtype, dims_of(py, &batch, window)?);
        let bytes = batch.bytes_mut(window).or_raise(py)?;
        windows.push((bytes.as_mut_ptr(), bytes.len(), dtype, dims));
    }
    lent.0.fetch_add(1, Ordering::Relaxed);
    let owner = Bound::new(py, LentBatch { _batch: batch, lent })?.into_any();
    let array = |(data, len, dtype, dims): (*mut u8, usize, _, Vec<usize>)| {
        // SAFETY: the bytes belong to a single window and begin at a multiple of 256. They stay in place while `owner`
        // keeps the batch, which it never touches.
        unsafe { buffer::over_bytes(&owner, (data, len), dtype, &dims) }
    };
    windows.into_iter().map(array).collect()
}

fn copy_of<'py>(py: Python<'py>, batch: &Batch, window: usize) -> PyResult<Bound<'py, PyAny>> {
    let column = batch.column(window).or_raise(py)?;
    let mut block = buffer::zeroed(column.bytes.len())?;
    let (place, bytes) = (block.bytes_mut(), column.bytes);
    py.detach(|| place.copy_from_slice(bytes));
    buffer::into_array(py, block, column.dtype, &dims_of(py, batch, window)?)
}

fn dims_of(py: Python<'_>, batch: &Batch, window: usize) -> PyResult<Vec<usize>> {
    let shape = batch.shape(window).or_raise(py)?;
    // The batch is in memory, so its sizes fit `usize`.
    Ok(shape.into_iter().map(|size| usize::try_from(size).unwrap_or(usize::MAX)).collect())
}

fn valid_of<'py>(py: Python<'py>, batch: &Batch, window: usize) -> PyResult<Bound<'py, PyAny>> {
    let valid = batch.column(window).or_raise(py)?.valid;
    from_elements(py, &valid.iter().map(|&steps| i64::from(steps)).collect::<Vec<i64>>())
}

fn rows_of<'py>(py: Python<'py>, rows: &[Trajectory], drawn: &Drawn) -> PyResult<[Bound<'py, PyAny>; 6]> {
    let numbers = |of: fn(&Trajectory) -> u64| signed(py, rows.iter().map(of));
    Ok([
        numbers(|row| row.index)?,
        numbers(|row| row.generation)?,
        numbers(|row| row.length)?,
        signed(py, drawn.steps.iter().copied())?,
        from_elements(py, &drawn.importance)?,
        from_elements(py, &drawn.probabilities)?,
    ])
}

/// Returns numbers as int64, which all frameworks support; none of these numbers needs 64 bits.
pub(super) fn signed(py: Python<'_>, numbers: impl Iterator<Item = u64>) -> PyResult<Bound<'_, PyAny>> {
    from_elements(py, &numbers.map(u64::cast_signed).collect::<Vec<i64>>())
}
