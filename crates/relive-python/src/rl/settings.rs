//! Settings, as JSON on their way from and to Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_rl::dqn::DqnConfig;

use super::raise::raise;

/// The settings that are in `config`.
pub(super) fn of_json(config: &str) -> PyResult<DqnConfig> {
    serde_json::from_str(config).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Raises ValueError for the first setting that is out of its range.
#[pyfunction]
pub(crate) fn check_dqn(py: Python<'_>, config: &str) -> PyResult<()> {
    of_json(config)?.validate().map_err(|error| raise(py, &error))
}

/// The settings for an environment by its name.
#[pyfunction]
pub(crate) fn dqn_for_environment(name: &str) -> PyResult<String> {
    let config = DqnConfig::for_environment(name);
    serde_json::to_string(&config).map_err(|error| PyValueError::new_err(error.to_string()))
}
