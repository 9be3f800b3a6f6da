//! Environments in Rust, stepped from Python.

use pyo3::prelude::*;
use relive_env::{Action, Buffer, EnvError, Environment, TimeStep};

use super::leaves::Leaves;
use super::raise::raise_env;
use super::spec;
use crate::interpreter::lock::Brief;

/// An environment in Rust; `relive.rl.environments.NativeEnvironment` gives it dm_env's interface.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct NativeEnvironment {
    stepped: Brief<Stepped>,
    observations: Leaves,
    actions: Leaves,
    /// Whether an action consists of a single number.
    takes_a_choice: bool,
}

struct Stepped {
    environment: Box<dyn Environment>,
    observation: Buffer,
    action: Buffer,
}

/// Step type, reward, discount, observation.
type Answer<'py> = (u8, f64, f64, Bound<'py, PyAny>);

#[pymethods]
impl NativeEnvironment {
    #[new]
    fn new(name: &str, seed: u64) -> PyResult<NativeEnvironment> {
        let made = || {
            let environment = relive_env::make(name, seed)?;
            let observation = Buffer::for_nest(&environment.spec().observations, 1)?;
            let action = Buffer::for_nest(&environment.spec().actions, 1)?;
            Ok(Stepped { environment, observation, action })
        };
        let stepped = made().map_err(|error| raise_env(&error))?;
        let spec = stepped.environment.spec();
        Ok(NativeEnvironment {
            observations: Leaves::new("observation", spec.observations.clone()),
            actions: Leaves::new("action", spec.actions.clone()),
            takes_a_choice: spec.num_actions().is_some(),
            stepped: Brief::new(stepped),
        })
    }

    /// Returns `(observations, actions, rewards, discounts)`.
    fn specs<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyAny>; 4]> {
        let spec = self.stepped.with(|stepped| stepped.environment.spec().clone());
        spec::to_python(py, &spec)
    }

    fn reset<'py>(&self, py: Python<'py>) -> PyResult<Answer<'py>> {
        let answer = self.stepped.with(|Stepped { environment, observation, .. }| {
            Ok((environment.reset(observation.view_mut())?, observation.clone()))
        });
        let (step, observation) = answer.map_err(|error: EnvError| raise_env(&error))?;
        self.answer(py, step, &observation)
    }

    fn step<'py>(&self, py: Python<'py>, action: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
        let choice = self.takes_a_choice.then(|| action.extract::<i64>().ok()).flatten();
        let mut given = None;
        if choice.is_none() {
            let mut buffer = self.stepped.with(|stepped| stepped.action.clone());
            self.actions.write(action, &mut buffer.view_mut())?;
            given = Some(buffer);
        }
        let answer = self.stepped.with(|Stepped { environment, observation, action }| {
            let action = given.as_ref().unwrap_or(action);
            let action = choice.map_or_else(|| Action::Nest(action.view()), Action::Discrete);
            Ok((environment.step(action, observation.view_mut())?, observation.clone()))
        });
        let (step, observation) = answer.map_err(|error: EnvError| raise_env(&error))?;
        self.answer(py, step, &observation)
    }
}

impl NativeEnvironment {
    fn answer<'py>(&self, py: Python<'py>, step: TimeStep, observation: &Buffer) -> PyResult<Answer<'py>> {
        let observation = self.observations.read(py, observation.view())?;
        Ok((step.step_type as u8, step.reward, step.discount, observation))
    }
}

/// Raises ValueError if there is no native environment with this name. The number of an experiment of bsuite is not
/// checked.
#[pyfunction]
pub(crate) fn expect_environment(name: &str) -> PyResult<()> {
    relive_env::expect_known(name).map_err(|error| raise_env(&error))
}
