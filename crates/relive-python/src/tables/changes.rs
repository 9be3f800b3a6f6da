//! Converts changes to tables in use between Python and Rust.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_client::{Changed, LoggedChange, TableChange};

/// A change to a table, from Python; omitted rules stay unchanged.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Change {
    max_size: Option<u64>,
    /// 0: no bound.
    max_bytes: Option<u64>,
    max_times_sampled: Option<i32>,
    samples_per_insert: Option<f64>,
    min_size_to_sample: Option<i64>,
    min_diff: Option<f64>,
    max_diff: Option<f64>,
    pause_inserts: Option<bool>,
    pause_samples: Option<bool>,
}

impl From<Change> for TableChange {
    fn from(change: Change) -> TableChange {
        TableChange {
            max_size: change.max_size,
            max_bytes: change.max_bytes.map(|bytes| Some(bytes).filter(|bytes| *bytes > 0)),
            max_times_sampled: change.max_times_sampled,
            samples_per_insert: change.samples_per_insert,
            min_size_to_sample: change.min_size_to_sample,
            min_diff: change.min_diff,
            max_diff: change.max_diff,
            pause_inserts: change.pause_inserts,
            pause_samples: change.pause_samples,
        }
    }
}

/// Returns the changes that were made, and the number of evicted items.
pub(crate) fn changed<'py>(py: Python<'py>, changed: &Changed) -> PyResult<(Vec<Bound<'py, PyDict>>, u64)> {
    Ok((logged(py, &changed.changes)?, changed.evicted))
}

/// Returns the fields of `relive.reverb_types.LoggedChange`.
pub(crate) fn logged<'py>(py: Python<'py>, changes: &[LoggedChange]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let change = |change: &LoggedChange| {
        let dict = PyDict::new(py);
        dict.set_item("at", change.at.as_nanos() as f64 / 1e9)?;
        dict.set_item("who", &change.who)?;
        dict.set_item("table", &change.table)?;
        dict.set_item("what", &change.what)?;
        dict.set_item("old", &change.old)?;
        dict.set_item("new", &change.new)?;
        Ok(dict)
    };
    changes.iter().map(change).collect()
}
