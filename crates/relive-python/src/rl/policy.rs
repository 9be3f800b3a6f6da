//! Trained policies.

use std::path::PathBuf;

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_env::Buffer;
use relive_rl::SavedPolicy;

use super::leaves::Leaves;
use super::raise::{raise, raise_env};
use crate::array;

/// Path, dtype and shape of a leaf.
type Described<'py> = (String, Bound<'py, PyAny>, Vec<u32>);

/// A trained policy; `relive.rl.Policy` is its face.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Policy {
    policy: Mutex<SavedPolicy>,
    empty: [Buffer; 2],
    observations: Leaves,
    actions: Leaves,
}

impl Policy {
    pub(super) fn new(policy: SavedPolicy) -> PyResult<Policy> {
        let spec = policy.spec().clone();
        let buffer = |nest| Buffer::for_nest(nest, 1).map_err(|error| raise_env(&error));
        let empty = [buffer(&spec.observations)?, buffer(&spec.actions)?];
        let leaves = |what, nest: relive_tensor::Nest<relive_env::ArraySpec>| {
            let names: Vec<_> = nest.leaves().map(|leaf| leaf.name.clone()).collect();
            Leaves::new(what, nest).named(names.into_iter())
        };
        let (observations, actions) =
            (leaves("observation", spec.observations), leaves("action", spec.actions));
        Ok(Policy { policy: Mutex::new(policy), empty, observations, actions })
    }

    /// Acts once; what is made of the policy and its action then.
    fn acted<'py, T>(
        &self,
        observation: &Bound<'py, PyAny>,
        then: impl FnOnce(Python<'py>, &SavedPolicy, &Buffer) -> PyResult<T>,
    ) -> PyResult<T> {
        let py = observation.py();
        // Written before the lock is taken: what converts the observation may be Python code.
        let [mut seen, mut action] = self.empty.clone();
        self.observations.write(observation, &mut seen.view_mut())?;
        let mut policy = self.policy.lock();
        policy.act(seen.view(), action.view_mut()).map_err(|error| raise(py, &error))?;
        then(py, &policy, &action)
    }
}

#[pymethods]
impl Policy {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands paths over by value")]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Policy> {
        let loaded = py.detach(|| SavedPolicy::load(&path, &relive_agents::from_json));
        Policy::new(loaded.map_err(|error| raise(py, &error))?)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8]) -> PyResult<Policy> {
        let policy = SavedPolicy::from_bytes(file, &relive_agents::from_json);
        Policy::new(policy.map_err(|error| raise(py, &error))?)
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands paths over by value")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.policy.lock().save(&path)).map_err(|error| raise(py, &error))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.policy.lock().to_bytes();
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise(py, &error))?))
    }

    /// Begins an episode with the next observation.
    fn reset(&self) {
        self.policy.lock().begin_episode();
    }

    /// The action for an observation, as an array.
    fn act<'py>(&self, observation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.acted(observation, |py, _, action| self.actions.read(py, action.view()))
    }

    /// The value of each action.
    fn values<'py>(&self, observation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.acted(observation, |py, policy, _| {
            let values = policy.extra("values").and_then(|values| values.to_vec::<f32>().ok());
            let none =
                || PyValueError::new_err(format!("a policy of {} has no values of actions", policy.agent()));
            array::from_elements(py, &values.ok_or_else(none)?)
        })
    }

    /// The name of its agent.
    fn agent(&self) -> String {
        self.policy.lock().agent().to_owned()
    }

    /// Path, dtype and shape of each leaf of an observation.
    fn observations<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        let spec = self.policy.lock().spec().clone();
        let leaves = spec.observations.leaves();
        leaves
            .map(|leaf| {
                let dtype = array::descr_of(py, leaf.dtype)?.into_any();
                Ok((leaf.name.clone(), dtype, leaf.shape.dims().to_vec()))
            })
            .collect()
    }

    /// How many actions there are, if they are numbers.
    fn num_actions(&self) -> Option<u32> {
        self.policy.lock().spec().num_actions()
    }
}
