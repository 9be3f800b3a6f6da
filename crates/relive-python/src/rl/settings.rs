//! Settings, as JSON on their way from and to Python.

use pyo3::prelude::*;

use super::raise::raise;

/// Raises ValueError for the first setting of an agent that is out of its range.
#[pyfunction]
pub(crate) fn check_agent(py: Python<'_>, agent: &str, config: &str) -> PyResult<()> {
    let checked = relive_agents::from_json(agent, config).and_then(|agent| agent.validate());
    checked.map_err(|error| raise(py, &error))
}

/// An agent's settings for an environment by its name.
#[pyfunction]
pub(crate) fn agent_for_environment(py: Python<'_>, agent: &str, name: &str) -> PyResult<String> {
    relive_agents::preset(agent, name).map_err(|error| raise(py, &error))
}
