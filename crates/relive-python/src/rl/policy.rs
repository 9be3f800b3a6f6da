//! Trained policies.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_env::Buffer;
use relive_rl::{Agent, MakeAgent, RlError, SavedPolicy};

use super::foreign::{ForeignAgent, Raised};
use super::leaves::Leaves;
use super::raise::{raise, raise_env};
use crate::arrays::array;
use crate::arrays::dtypes;
use crate::interpreter::lock::Detached;

/// Path, dtype and shape of a leaf.
type Described<'py> = (String, Bound<'py, PyAny>, Vec<u32>);

/// A trained policy; `relive.rl.Policy` wraps it.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Policy {
    policy: Detached<SavedPolicy>,
    empty: [Buffer; 2],
    observations: Leaves,
    actions: Leaves,
    raised: Raised,
}

impl Policy {
    /// `raised` stores the exceptions of a Python agent that acts.
    pub(super) fn new(policy: SavedPolicy, raised: Raised) -> PyResult<Policy> {
        let spec = policy.spec().clone();
        let buffer = |nest| Buffer::for_nest(nest, 1).map_err(|error| raise_env(&error));
        let empty = [buffer(&spec.observations)?, buffer(&spec.actions)?];
        let leaves = |what, nest: relive_tensor::Nest<relive_env::ArraySpec>| {
            let names: Vec<_> = nest.leaves().map(|leaf| leaf.name.clone()).collect();
            Leaves::new(what, nest).named(names.into_iter())
        };
        let (observations, actions) =
            (leaves("observation", spec.observations), leaves("action", spec.actions));
        Ok(Policy { policy: Detached::new(policy), empty, observations, actions, raised })
    }

    /// Returns an observation as a row. It is written before the policy's lock is taken, because converting it may run
    /// Python code.
    fn seen(&self, observation: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let [seen, _] = &self.empty;
        let mut seen = seen.clone();
        self.observations.write(observation, &mut seen.view_mut())?;
        Ok(seen)
    }

    /// Calls the policy. Returns its result, or the exception that its Python code has raised in this call.
    fn called<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut SavedPolicy) -> relive_rl::Result<T> + Send,
    ) -> PyResult<T> {
        let raised = self.raised.clone();
        match self.policy.with(py, |policy| (call(policy), raised.take())) {
            (_, Some(raised)) => Err(raised),
            (result, None) => result.map_err(|error| raise(py, &error)),
        }
    }

    fn loaded(
        py: Python<'_>,
        agent: Option<Bound<'_, PyAny>>,
        load: impl FnOnce(&MakeAgent<'_>) -> relive_rl::Result<SavedPolicy> + Send,
    ) -> PyResult<Policy> {
        let raised = Raised::default();
        let foreign =
            agent.map(|agent| ForeignAgent::new(&agent, raised.clone()).map(Arc::new)).transpose()?;
        let loaded = py.detach(|| {
            load(&|name, settings| match &foreign {
                Some(agent) if agent.name() == name => Ok(Arc::clone(agent) as Arc<dyn Agent>),
                Some(agent) => {
                    let expected = format!("{}, the agent that was passed as `agent=`", agent.name());
                    Err(RlError::setting("the policy's agent", name, expected))
                }
                None if !relive_agents::NAMES.contains(&name) => {
                    let expected = "one of Relive's; for an agent of your own, pass the agent as `agent=`";
                    Err(RlError::setting("the policy's agent", name, expected))
                }
                None => relive_agents::from_json(name, settings),
            })
        });
        let loaded = loaded.map_err(|error| raised.take().unwrap_or_else(|| raise(py, &error)))?;
        Policy::new(loaded, raised)
    }
}

#[pymethods]
impl Policy {
    /// Loads a policy from a file; a Python agent's policy needs a bridge.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes paths by value")]
    fn load(py: Python<'_>, path: PathBuf, agent: Option<Bound<'_, PyAny>>) -> PyResult<Policy> {
        Policy::loaded(py, agent, |make| SavedPolicy::load(&path, make))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8], agent: Option<Bound<'_, PyAny>>) -> PyResult<Policy> {
        Policy::loaded(py, agent, |make| SavedPolicy::from_bytes(file, make))
    }

    /// Loads a policy that explores.
    #[staticmethod]
    fn exploring(
        py: Python<'_>,
        file: &[u8],
        agent: Option<Bound<'_, PyAny>>,
        seed: u64,
    ) -> PyResult<Policy> {
        Policy::loaded(py, agent, |make| SavedPolicy::from_bytes(file, make)?.exploring(make, seed))
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes paths by value")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.policy.with(py, |policy| policy.save(&path)).map_err(|error| raise(py, &error))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.policy.with(py, |policy| policy.to_bytes());
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise(py, &error))?))
    }

    /// Records that the next observation begins an episode.
    fn reset(&self, py: Python<'_>) {
        self.policy.with(py, SavedPolicy::begin_episode);
    }

    /// Returns the action for an observation, as an array.
    fn act<'py>(&self, observation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let ([_, action], py) = (&self.empty, observation.py());
        let (seen, mut action) = (self.seen(observation)?, action.clone());
        self.called(py, |policy| policy.act(seen.view(), action.view_mut()))?;
        self.actions.read(py, action.view())
    }

    /// Returns the value of each action, without acting.
    fn values<'py>(&self, observation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, seen) = (observation.py(), self.seen(observation)?);
        let found = self.called(py, |policy| policy.extra_at("values", seen.view()))?;
        let values = found.and_then(|values| values.to_vec::<f32>().ok());
        let none = || PyValueError::new_err(format!("a policy of {} has no action values", self.agent(py)));
        array::from_elements(py, &values.ok_or_else(none)?)
    }

    /// Returns the name of the policy's agent.
    fn agent(&self, py: Python<'_>) -> String {
        self.policy.with(py, |policy| policy.agent().to_owned())
    }

    /// Returns the path, dtype and shape of each leaf of an observation.
    fn observations<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        let spec = self.policy.with(py, |policy| policy.spec().clone());
        let leaves = spec.observations.leaves();
        leaves
            .map(|leaf| {
                let dtype = dtypes::descr_of(py, leaf.dtype)?.into_any();
                Ok((leaf.name.clone(), dtype, leaf.shape.dims().to_vec()))
            })
            .collect()
    }

    /// Returns the number of actions, if they are discrete.
    fn num_actions(&self, py: Python<'_>) -> Option<u32> {
        self.policy.with(py, |policy| policy.spec().num_actions())
    }
}
