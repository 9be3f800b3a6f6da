//! An agent as a call gives it: settings of one of ours, or one of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use relive_rl::Agent;

use super::foreign::{ForeignAgent, Raised};
use super::raise::raise;
use crate::finalization;

/// The agent, and whether it is one of Python.
pub(super) fn agent_of(agent: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<(Arc<dyn Agent>, bool)> {
    if let Ok((name, config)) = agent.extract::<(String, String)>() {
        let native = relive_agents::from_json(&name, &config);
        return Ok((native.map_err(|error| raise(agent.py(), &error))?, false));
    }
    Ok((Arc::new(ForeignAgent::new(agent, raised.clone())?), true))
}

/// Runs `work` such that Python code, if there is to be any, finds one thread state throughout: what it keeps per
/// thread is lost otherwise from call to call.
pub(super) fn within<T: Send>(is_foreign: bool, work: impl FnOnce() -> T + Send) -> T {
    if is_foreign { finalization::attach(|py| py.detach(work)) } else { work() }
}
