//! Environments in Python, stepped from Rust.

use pyo3::intern;
use pyo3::prelude::*;
use relive_env::{Action, Buffer, EnvError, Environment, EnvironmentSpec, StepType, TimeStep, ViewMut};

use super::Raised;
use crate::rl::leaves::Leaves;
use crate::rl::{raise, spec};

/// A `relive.rl._bridge.Bridge`, which has `specs`, `reset()` and `step(actions)`, with leaves in lists.
pub(in crate::rl) struct ForeignEnvironment {
    bridge: Py<PyAny>,
    spec: EnvironmentSpec,
    observations: Leaves,
    actions: Leaves,
    action: Buffer,
    raised: Raised,
}

impl ForeignEnvironment {
    pub(in crate::rl) fn new(bridge: Bound<'_, PyAny>, raised: Raised) -> PyResult<ForeignEnvironment> {
        let spec = spec::from_python(&bridge.getattr(intern!(bridge.py(), "specs"))?)?;
        let action = Buffer::for_nest(&spec.actions, 1).map_err(|error| raise::raise_env(&error))?;
        Ok(ForeignEnvironment {
            bridge: bridge.unbind(),
            observations: Leaves::new("observation", spec.observations.clone()),
            actions: Leaves::new("action", spec.actions.clone()),
            spec,
            action,
            raised,
        })
    }

    /// Calls Python and writes the observation that it answers with.
    fn call(
        &self,
        observation: &mut ViewMut<'_>,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<Py<PyAny>>,
    ) -> Result<TimeStep, EnvError> {
        Python::attach(|py| {
            let answer = call(self.bridge.bind(py))?;
            let (step_type, reward, discount, leaves) =
                answer.bind(py).extract::<(u8, f64, f64, Vec<Bound<'_, PyAny>>)>()?;
            self.observations.write_each(&leaves, observation)?;
            let step_type = match step_type {
                0 => StepType::First,
                1 => StepType::Mid,
                _ => StepType::Last,
            };
            Ok(TimeStep { step_type, reward, discount })
        })
        .map_err(|error| EnvError::Failed(self.raised.keep(error)))
    }
}

impl Environment for ForeignEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let own = Buffer::for_nest(&self.spec.observations, 1)?;
        observation.expect_like(own.view())?;
        self.call(&mut observation, |bridge| {
            bridge.call_method0(intern!(bridge.py(), "reset")).map(Bound::unbind)
        })
    }

    fn step(&mut self, action: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.action.set_action(0, action)?;
        let values = self.action.check_row(0, &self.spec.actions);
        values.map_err(|error| match error {
            EnvError::Observation(mismatch) => EnvError::Action(mismatch),
            error => error,
        })?;
        self.call(&mut observation, |bridge| {
            let leaves = self.actions.read_each(bridge.py(), self.action.view())?;
            bridge.call_method1(intern!(bridge.py(), "step"), (leaves,)).map(Bound::unbind)
        })
    }
}
