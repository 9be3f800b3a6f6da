//! Trained policies of any agent that is a plan.

use std::path::PathBuf;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_env::Buffer;
use relive_rl::plan::SavedPolicy as RustPolicy;

use super::leaves::Leaves;
use super::raise::{raise, raise_env};

/// A trained policy; `relive.rl.SavedPolicy` is its face.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct SavedPolicy {
    policy: Mutex<RustPolicy>,
    empty: [Buffer; 2],
    observations: Leaves,
    actions: Leaves,
}

impl SavedPolicy {
    pub(super) fn new(py: Python<'_>, policy: RustPolicy) -> PyResult<SavedPolicy> {
        let spec = policy.spec().map_err(|error| raise(py, &error))?;
        let buffer = |nest| Buffer::for_nest(nest, 1).map_err(|error| raise_env(&error));
        let empty = [buffer(&spec.observations)?, buffer(&spec.actions)?];
        let leaves = |what, nest: relive_tensor::Nest<relive_env::ArraySpec>| {
            let names: Vec<_> = nest.leaves().map(|leaf| leaf.name.clone()).collect();
            Leaves::new(what, nest).named(names.into_iter())
        };
        let (observations, actions) =
            (leaves("observation", spec.observations), leaves("action", spec.actions));
        Ok(SavedPolicy { policy: Mutex::new(policy), empty, observations, actions })
    }
}

#[pymethods]
impl SavedPolicy {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands paths over by value")]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<SavedPolicy> {
        let loaded = py.detach(|| RustPolicy::load(&path, &relive_agents::from_json));
        SavedPolicy::new(py, loaded.map_err(|error| raise(py, &error))?)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8]) -> PyResult<SavedPolicy> {
        let policy = RustPolicy::from_bytes(file, &relive_agents::from_json);
        SavedPolicy::new(py, policy.map_err(|error| raise(py, &error))?)
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands paths over by value")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.policy.lock().save(&path)).map_err(|error| raise(py, &error))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.policy.lock().to_bytes();
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise(py, &error))?))
    }

    /// The action for an observation, as an array.
    fn act<'py>(&self, observation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = observation.py();
        // Written before the lock is taken: what converts the observation may be Python code.
        let [mut seen, mut action] = self.empty.clone();
        self.observations.write(observation, &mut seen.view_mut())?;
        let acted = self.policy.lock().act(seen.view(), action.view_mut());
        acted.map_err(|error| raise(py, &error))?;
        self.actions.read(py, action.view())
    }

    /// The name of its agent.
    fn agent(&self) -> String {
        self.policy.lock().agent().to_owned()
    }
}
