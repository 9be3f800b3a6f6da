//! Trained policies.

use std::path::PathBuf;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use relive_env::Buffer;
use relive_rl::dqn::Policy as RustPolicy;

use super::leaves::Leaves;
use super::raise::{raise, raise_env};
use crate::array;

/// A trained policy; `relive.rl.Policy` is its face.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Policy {
    acting: Mutex<Acting>,
    observations: Leaves,
}

struct Acting {
    policy: RustPolicy,
    observation: Buffer,
}

impl Policy {
    pub(super) fn new(policy: RustPolicy) -> PyResult<Policy> {
        let nest = policy.shape().observation_nest();
        let observation = Buffer::for_nest(&nest, 1).map_err(|error| raise_env(&error))?;
        let names: Vec<_> = policy.shape().observations.iter().map(|leaf| leaf.path.clone()).collect();
        let observations = Leaves::new("observation", nest).named(names.into_iter());
        Ok(Policy { acting: Mutex::new(Acting { policy, observation }), observations })
    }

    fn observed<T>(
        &self,
        observation: &Bound<'_, PyAny>,
        then: impl FnOnce(&mut RustPolicy, &Buffer) -> relive_rl::Result<T>,
    ) -> PyResult<T> {
        // Written before the lock is taken: what converts the observation may be Python code.
        let mut buffer = self.acting.lock().observation.clone();
        self.observations.write(observation, &mut buffer.view_mut())?;
        then(&mut self.acting.lock().policy, &buffer).map_err(|error| raise(observation.py(), &error))
    }
}

#[pymethods]
impl Policy {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands paths over by value")]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Policy> {
        let loaded = py.detach(|| RustPolicy::load(&path));
        Policy::new(loaded.map_err(|error| raise(py, &error))?)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8]) -> PyResult<Policy> {
        Policy::new(RustPolicy::from_bytes(file).map_err(|error| raise(py, &error))?)
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands paths over by value")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let policy = self.acting.lock().policy.clone();
        py.detach(|| policy.save(&path)).map_err(|error| raise(py, &error))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.acting.lock().policy.to_bytes();
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise(py, &error))?))
    }

    /// The action of the greatest value.
    fn act(&self, observation: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.observed(observation, |policy, buffer| policy.act(buffer.view()))
    }

    /// The value of each action.
    fn values<'py>(&self, observation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let values =
            self.observed(observation, |policy, buffer| Ok(policy.values(buffer.view())?.to_vec()))?;
        array::from_elements(observation.py(), &values)
    }

    /// What the network is made for and of.
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shape = self.acting.lock().policy.shape().clone();
        let dict = PyDict::new(py);
        let mut observations = Vec::with_capacity(shape.observations.len());
        for leaf in &shape.observations {
            observations.push((leaf.path.clone(), array::descr_of(py, leaf.dtype)?, leaf.dims.clone()));
        }
        dict.set_item("observations", observations)?;
        dict.set_item("actions", shape.actions)?;
        dict.set_item("hidden", shape.hidden)?;
        dict.set_item("duelling", shape.duelling)?;
        Ok(dict)
    }
}
