//! Metrics of Python learners, by name.

use std::collections::BTreeSet;

use crate::interpreter::lock::Brief;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The maximum number of names in a process. A learner uses only a few names, and always the same ones.
const MAX_NAMES: usize = 10_000;

pub(super) fn from_python(metrics: &Bound<'_, PyDict>) -> PyResult<Vec<(&'static str, f64)>> {
    metrics
        .iter()
        .map(|(name, value)| Ok((interned(&name.extract::<String>()?)?, value.extract()?)))
        .collect()
}

/// Returns the name as a string that lives as long as the process.
fn interned(name: &str) -> PyResult<&'static str> {
    static NAMES: Brief<BTreeSet<&'static str>> = Brief::new(BTreeSet::new());
    let kept = NAMES.with(|names| {
        if let Some(known) = names.get(name) {
            return Some(*known);
        }
        if names.len() == MAX_NAMES {
            return None;
        }
        let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
        names.insert(kept);
        Some(kept)
    });
    kept.ok_or_else(|| {
        PyValueError::new_err(format!(
            "learn() has returned more than {MAX_NAMES} different metric names, most recently {name:?}; use the same names in every call"
        ))
    })
}
