//! Removal rules: built-in ones, and Python functions.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use relive_gpu::{Removal, Trajectory};

use crate::arrays::array::from_elements;
use crate::interpreter::finalization;

thread_local! {
    /// The first exception that a removal function raised in this thread, within [`watch`]. A function is called by the
    /// thread that needs the room, and only the call of this thread raises the exception again.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs `act`, and also returns the first exception that a removal function raised meanwhile. A removal function may
/// use another store, so calls may be nested.
pub(super) fn watch<T>(act: impl FnOnce() -> T) -> (T, Option<PyErr>) {
    let before = RAISED.take();
    let outcome = act();
    (outcome, RAISED.replace(before))
}

/// Returns whether a removal function has raised an exception since the current [`watch`] began.
pub(super) fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Returns a removal: `("fifo", None)` and so on, `("max_times_sampled", n)`, or `("callback", function)`.
pub(super) fn removal_of(name: &str, argument: &Bound<'_, PyAny>) -> PyResult<Option<Removal>> {
    Ok(Some(match name {
        "fifo" => Removal::Fifo,
        "lifo" => Removal::Lifo,
        "lowest_weight" => Removal::LowestWeight,
        "random" => Removal::Random,
        "max_times_sampled" => Removal::MaxTimesSampled(argument.extract()?),
        "callback" => callback(argument.clone().unbind()),
        _ => return Ok(None),
    }))
}

/// Returns a removal rule that calls a Python function.
pub(super) fn callback(function: Py<PyAny>) -> Removal {
    Removal::Callback(Arc::new(move |candidates| {
        finalization::attach(|py| match choose(function.bind(py), candidates) {
            Ok(choice) => choice,
            Err(error) => {
                if !has_raised() {
                    RAISED.set(Some(error));
                }
                None
            }
        })
    }))
}

fn choose(function: &Bound<'_, PyAny>, candidates: &[Trajectory]) -> PyResult<Option<usize>> {
    let py = function.py();
    let numbers = |of: fn(&Trajectory) -> u64| {
        let values: Vec<i64> = candidates.iter().map(|candidate| of(candidate).cast_signed()).collect();
        from_elements(py, &values)
    };
    let weights: Vec<f32> = candidates.iter().map(|candidate| candidate.weight).collect();
    let arrays = (
        numbers(|candidate| candidate.index)?,
        numbers(|candidate| candidate.generation)?,
        numbers(|candidate| candidate.length)?,
        from_elements(py, &weights)?,
        numbers(|candidate| candidate.inserted)?,
        numbers(|candidate| candidate.sampled)?,
    );
    let choice: Option<usize> = function.call1(arrays)?.extract()?;
    match choice {
        Some(position) if position >= candidates.len() => Err(PyIndexError::new_err(format!(
            "the removal function returned position {position}, but there are {} candidates",
            candidates.len()
        ))),
        choice => Ok(choice),
    }
}
