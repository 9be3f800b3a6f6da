//! The states of policies and learners of Python.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_rl::Result;

use super::Raised;

/// What a bridge is resumed with. What goes wrong is kept, and stays to be told: saving cannot fail.
pub(super) fn save(bridge: &Py<PyAny>, raised: &Raised) -> Vec<u8> {
    let saved = raised.call(|py| bridge.bind(py).call_method0(intern!(py, "save"))?.extract::<Vec<u8>>());
    saved.unwrap_or_default()
}

pub(super) fn restore(bridge: &Py<PyAny>, raised: &Raised, state: &[u8]) -> Result<()> {
    raised
        .call(|py| bridge.bind(py).call_method1(intern!(py, "restore"), (PyBytes::new(py, state),)).map(drop))
}
