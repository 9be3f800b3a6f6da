//! The agent of a call: a native one with settings, or a Python one.

use std::sync::Arc;

use pyo3::prelude::*;
use relive_rl::Agent;

use super::foreign::{ForeignAgent, Raised};
use super::raise::raise;
use crate::finalization;

/// The agent, and whether it is a Python agent.
pub(super) fn agent_of(agent: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<(Arc<dyn Agent>, bool)> {
    if let Ok((name, config)) = agent.extract::<(String, String)>() {
        let native = relive_agents::from_json(&name, &config);
        return Ok((native.map_err(|error| raise(agent.py(), &error))?, false));
    }
    Ok((Arc::new(ForeignAgent::new(agent, raised.clone())?), true))
}

/// Runs `work` so that Python code, if there is any, sees one thread state throughout: otherwise, its thread-local data
/// would be lost between calls.
pub(super) fn within<T: Send>(is_foreign: bool, work: impl FnOnce() -> T + Send) -> T {
    if is_foreign { finalization::attach(|py| py.detach(work)) } else { work() }
}
