//! Agents passed from Python, which are native agents with settings or Python agents, and their settings as JSON.

use std::sync::Arc;

use pyo3::prelude::*;
use relive_env::ReferenceScores;
use relive_rl::Agent;

use super::foreign::{ForeignAgent, Raised};
use super::raise::raise;

/// Returns the agent: native, or in Python.
pub(super) fn agent_of(agent: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<Arc<dyn Agent>> {
    if let Ok((name, config)) = agent.extract::<(String, String)>() {
        let native = relive_agents::from_json(&name, &config);
        return native.map_err(|error| raise(agent.py(), &error));
    }
    Ok(Arc::new(ForeignAgent::new(agent, raised.clone())?))
}

/// Raises ValueError for the first setting of an agent that is out of range.
#[pyfunction]
pub(crate) fn check_agent(py: Python<'_>, agent: &str, config: &str) -> PyResult<()> {
    let checked = relive_agents::from_json(agent, config).and_then(|agent| agent.validate());
    checked.map_err(|error| raise(py, &error))
}

/// Returns an agent's settings for the environment with the given name.
#[pyfunction]
pub(crate) fn agent_for_environment(py: Python<'_>, agent: &str, name: &str) -> PyResult<String> {
    relive_agents::preset(agent, name).map_err(|error| raise(py, &error))
}

/// Returns all settings of an agent as a JSON object: the given settings, and defaults for all others.
#[pyfunction]
pub(crate) fn agent_settings(py: Python<'_>, agent: &str, config: &str) -> PyResult<String> {
    let made = relive_agents::from_json(agent, config).and_then(|agent| agent.validate().map(|()| agent));
    let made = made.map_err(|error| raise(py, &error))?;
    let fields = made.settings().into_iter().map(|(name, value)| format!("\"{name}\": {value}"));
    Ok(format!("{{{}}}", fields.collect::<Vec<_>>().join(", ")))
}

/// Returns the mean returns of a random policy and an expert in a native environment, if these returns are known.
#[pyfunction]
pub(crate) fn reference_scores(name: &str) -> Option<(f64, f64)> {
    ReferenceScores::of(name).map(|scores| (scores.random(), scores.expert()))
}
