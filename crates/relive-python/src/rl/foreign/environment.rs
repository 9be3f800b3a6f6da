//! Environments in Python, stepped from Rust.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use relive_env::{BatchEnvironment, Buffer, EnvError, EnvironmentSpec, StepType, TimeStep};

use super::Raised;
use crate::arrays::array;
use crate::interpreter::finalization;
use crate::rl::leaves::Leaves;
use crate::rl::spec;

/// A `relive.rl._bridge.Bridge`, with `specs`, `rows`, `agents`, `reset()` and `step(actions)`. Leaves are passed in
/// lists, and each leaf has one row per environment.
pub(in crate::rl) struct ForeignEnvironments {
    bridge: Py<PyAny>,
    spec: EnvironmentSpec,
    rows: usize,
    agents: usize,
    /// The names that messages use for the methods.
    resets: Arc<str>,
    steps: Arc<str>,
    observations: Leaves,
    actions: Leaves,
    raised: Raised,
}

/// Step types, rewards, discounts, and leaves of the observations.
type Answer<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>);

impl ForeignEnvironments {
    pub(in crate::rl) fn new(bridge: Bound<'_, PyAny>, raised: Raised) -> PyResult<ForeignEnvironments> {
        let py = bridge.py();
        let spec = spec::from_python(&bridge.getattr(intern!(py, "specs"))?)?;
        let name = bridge.getattr(intern!(py, "called"))?.extract::<String>()?;
        Ok(ForeignEnvironments {
            rows: bridge.getattr(intern!(py, "rows"))?.extract()?,
            agents: bridge.getattr(intern!(py, "agents"))?.extract()?,
            resets: format!("{name}.reset()").into(),
            steps: format!("{name}.step()").into(),
            bridge: bridge.unbind(),
            observations: Leaves::new("observation", spec.observations.clone()),
            actions: Leaves::new("action", spec.actions.clone()),
            spec,
            raised,
        })
    }

    /// Calls Python once, and copies the result into the buffers.
    fn call(
        &self,
        (observations, answers): (&mut Buffer, &mut [TimeStep]),
        method: &Arc<str>,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<Py<PyAny>>,
    ) -> Result<(), EnvError> {
        let _doing = self.raised.begin_call(method);
        finalization::attach_in_turn(|py| {
            let answer = call(self.bridge.bind(py))?;
            let (step_types, rewards, discounts, leaves): Answer<'_> = answer.bind(py).extract()?;
            let step_types = array::to_tensor(&step_types)?.to_vec::<u8>();
            let step_types = step_types.map_err(|error| PyValueError::new_err(error.to_string()))?;
            let numbers = array::floats(&rewards)?.into_iter().zip(array::floats(&discounts)?);
            for ((answer, step_type), (reward, discount)) in answers.iter_mut().zip(step_types).zip(numbers) {
                let step_type = StepType::of_number(step_type)
                    .ok_or_else(|| PyValueError::new_err(format!("{step_type} is not a step type")))?;
                *answer = TimeStep { step_type, reward, discount };
            }
            self.observations.write_rows(&leaves, observations)
        })
        .map_err(|error| EnvError::Failed(self.raised.keep(error)))
    }
}

impl Drop for ForeignEnvironments {
    fn drop(&mut self) {
        let closed = finalization::attach_in_turn(|py| {
            self.bridge
                .bind(py)
                .call_method0(intern!(py, "close"))
                .map(drop)
                .map_err(|error| error.to_string())
        });
        if let Err(error) = closed {
            tracing::warn!(target: "relive", "cannot close environments: {error}");
        }
    }
}

impl BatchEnvironment for ForeignEnvironments {
    fn len(&self) -> usize {
        self.rows
    }

    fn agents(&self) -> usize {
        self.agents
    }

    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observations: &mut Buffer, answers: &mut [TimeStep]) -> Result<(), EnvError> {
        self.expect_rows(&[observations.rows(), answers.len()])?;
        self.observations()?.expect_leaves_of(observations)?;
        self.call((observations, answers), &self.resets, |bridge| {
            bridge.call_method0(intern!(bridge.py(), "reset")).map(Bound::unbind)
        })
    }

    fn step(
        &mut self,
        actions: &Buffer,
        observations: &mut Buffer,
        answers: &mut [TimeStep],
    ) -> Result<(), EnvError> {
        self.expect_rows(&[actions.rows(), observations.rows(), answers.len()])?;
        actions.check_rows(&self.spec.actions).map_err(EnvError::of_action)?;
        self.call((observations, answers), &self.steps, |bridge| {
            let leaves = self.actions.read_rows(bridge.py(), actions, &[self.rows])?;
            bridge.call_method1(intern!(bridge.py(), "step"), (leaves,)).map(Bound::unbind)
        })
    }
}
