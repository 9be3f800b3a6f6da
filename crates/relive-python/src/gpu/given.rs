//! Copies arrays into trajectories.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use relive_gpu::{Inserted, Result, Schema, Store};

use super::changes::Hub;
use super::owned::Shared;
use super::raise::{OrRaise, invalid};
use super::removal;
use crate::arrays::numeric_array::NumericArray;

/// The interval between checks for signals during a wait for a row.
const SLICE: Duration = Duration::from_millis(50);

/// Copies a trajectory into a store: one array per column of the schema, in order.
///
/// # Errors
/// An array does not fit its column, or the arrays differ in length (in both cases, nothing is evicted); no row became
/// free in time; or the store was closed in the meantime.
pub(super) fn insert(
    py: Python<'_>,
    hub: &Shared<Arc<Hub>>,
    arrays: &[Bound<'_, PyAny>],
    weight: f64,
    patience: Duration,
) -> PyResult<Inserted> {
    let weight = checked_weight(py, weight)?;
    let arrays: Vec<NumericArray<'_>> = arrays.iter().map(NumericArray::of).collect::<PyResult<_>>()?;
    let length = checked_length(py, hub.get(py)?.store().schema(), &arrays)?;
    let bytes: Vec<&[u8]> = arrays.iter().map(NumericArray::bytes).collect();
    let deadline = Instant::now().checked_add(patience);
    loop {
        let left = deadline.map_or(SLICE, |at| at.saturating_duration_since(Instant::now()));
        let last = left <= SLICE && deadline.is_some();
        let hub = hub.get(py)?;
        let outcome = py.detach(|| copy(hub.store(), &bytes, (length, weight), left.min(SLICE)));
        match outcome {
            // A signal handler may have raised an exception within the caller's removal function.
            Err(error)
                if error.kind() == relive_gpu::ErrorKind::Unavailable && !last && !removal::has_raised() =>
            {
                py.check_signals()?;
            }
            outcome => {
                let inserted = outcome.or_raise(py)?;
                return inserted
                    .ok_or_else(|| invalid(py, "the removal function raised an exception".to_owned()));
            }
        }
    }
}

/// Returns `None` if the caller's removal function raised an exception; the trajectory is then not in the store.
fn copy(
    store: &Store,
    columns: &[&[u8]],
    (length, weight): (u64, f32),
    patience: Duration,
) -> Result<Option<Inserted>> {
    let mut writing = if patience.is_zero() { store.begin()? } else { store.begin_within(patience)? };
    writing.make_room();
    if removal::has_raised() {
        return Ok(None);
    }
    for (position, bytes) in columns.iter().enumerate() {
        // The shapes were checked, and the row has room for the maximum number of steps.
        writing.column(position)?[..bytes.len()].copy_from_slice(bytes);
    }
    writing.commit(length, weight).map(Some)
}

/// Converts a weight to the store's type.
///
/// # Errors
/// The weight is negative, infinite, too large or NaN. A positive weight that is too small for the type stays positive.
pub(super) fn checked_weight(py: Python<'_>, weight: f64) -> PyResult<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "weights are rounded to f32, as documented")]
    let rounded = weight as f32;
    if !rounded.is_finite() || rounded < 0.0 {
        let text = format!("the weight is {weight}, but it must be a finite, non-negative 32-bit float");
        return Err(invalid(py, text));
    }
    Ok(if weight > 0.0 && rounded == 0.0 { f32::from_bits(1) } else { rounded })
}

fn checked_length(py: Python<'_>, schema: &Schema, arrays: &[NumericArray<'_>]) -> PyResult<u64> {
    if arrays.len() != schema.columns().len() {
        let (given, wanted) = (arrays.len(), schema.columns().len());
        return Err(invalid(py, format!("got {given} arrays for {wanted} columns")));
    }
    let mut first = None;
    for (column, array) in schema.columns().iter().zip(arrays) {
        let name = &column.name;
        if array.dtype() != column.dtype {
            let (given, wanted) = (array.dtype().numpy_name(), column.dtype.numpy_name());
            let text = format!(
                "column {name:?}: the array has the data type {given}, but the column has {wanted}; convert it with .astype({wanted:?})"
            );
            return Err(invalid(py, text));
        }
        let shape = array.shape();
        let fits = shape.len() == column.shape.len() + 1
            && shape.iter().skip(1).map(|&size| size as u64).eq(column.shape.iter().copied());
        if !fits {
            let text = format!(
                "column {name:?}: the array has shape {shape:?}, but a trajectory must have shape [steps, …] with steps of shape {:?}",
                column.shape
            );
            return Err(invalid(py, text));
        }
        let length = shape[0] as u64;
        match first {
            None => first = Some((name, length)),
            Some((other, expected)) if expected != length => {
                let text = format!(
                    "column {name:?} has {length} steps, but column {other:?} has {expected}; all columns must have the same number"
                );
                return Err(invalid(py, text));
            }
            Some(_) => {}
        }
    }
    let length = first.map_or(0, |(_, length)| length);
    let most = schema.max_steps();
    if length == 0 || length > most {
        let text =
            format!("a trajectory has {length} steps, but it must have 1 to {most}, the store's max_steps");
        return Err(invalid(py, text));
    }
    Ok(length)
}
