//! Settings, as JSON on their way from and to Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_rl::dqn::DqnConfig;

use super::chosen::Chosen;
use super::raise::raise;

/// The settings that are in `config`.
pub(super) fn of_json(config: &str) -> PyResult<DqnConfig> {
    serde_json::from_str(config).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Raises ValueError for the first setting of an agent that is out of its range.
#[pyfunction]
pub(crate) fn check_agent(py: Python<'_>, agent: &str, config: &str) -> PyResult<()> {
    Chosen::new(py, agent, config)?.validate().map_err(|error| raise(py, &error))
}

/// An agent's settings for an environment by its name.
#[pyfunction]
pub(crate) fn agent_for_environment(py: Python<'_>, agent: &str, name: &str) -> PyResult<String> {
    match agent {
        "dqn" => {
            let config = DqnConfig::for_environment(name);
            serde_json::to_string(&config).map_err(|error| PyValueError::new_err(error.to_string()))
        }
        _ => relive_agents::preset(agent, name).map_err(|error| raise(py, &error)),
    }
}
