//! Environments in Rust, stepped from Python.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use relive_env::bsuite::{BsuiteEnvironment, BsuiteId, Totals};
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
    kind: Kind,
    observation: Buffer,
    action: Buffer,
}

enum Kind {
    /// An environment of bsuite, and the number of episodes that bsuite specifies for it.
    Bsuite(Box<dyn BsuiteEnvironment>, u64),
    Other(Box<dyn Environment>),
}

impl Kind {
    fn new(name: &str, seed: u64) -> Result<Kind, EnvError> {
        if let (Ok(id), Ok(seed)) = (name.parse::<BsuiteId>(), u32::try_from(seed)) {
            return Ok(Kind::Bsuite(id.load(seed)?, id.experiment().num_episodes()));
        }
        // Also refuses unknown names, and seeds that are too large for bsuite.
        relive_env::make(name, seed).map(Kind::Other)
    }

    fn environment(&mut self) -> &mut dyn Environment {
        match self {
            Kind::Bsuite(environment, _) => environment,
            Kind::Other(environment) => environment,
        }
    }
}

/// Step type, reward, discount, observation.
type Answer<'py> = (u8, f64, f64, Bound<'py, PyAny>);

#[pymethods]
impl NativeEnvironment {
    #[new]
    fn new(name: &str, seed: u64) -> PyResult<NativeEnvironment> {
        let made = || {
            let mut kind = Kind::new(name, seed)?;
            let spec = kind.environment().spec();
            let observation = Buffer::for_nest(&spec.observations, 1)?;
            let action = Buffer::for_nest(&spec.actions, 1)?;
            Ok(Stepped { kind, observation, action })
        };
        let mut stepped = made().map_err(|error| raise_env(&error))?;
        let spec = stepped.kind.environment().spec().clone();
        Ok(NativeEnvironment {
            observations: Leaves::new("observation", spec.observations.clone()),
            actions: Leaves::new("action", spec.actions.clone()),
            takes_a_choice: spec.num_actions().is_some(),
            stepped: Brief::new(stepped),
        })
    }

    /// Returns `(observations, actions, rewards, discounts)`.
    fn specs<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyAny>; 4]> {
        let spec = self.stepped.with(|stepped| stepped.kind.environment().spec().clone());
        spec::to_python(py, &spec)
    }

    /// Returns the totals of an environment of bsuite by name; `None` for other environments.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let totals = self.stepped.with(|stepped| match &stepped.kind {
            Kind::Bsuite(environment, _) => Some(environment.totals()),
            Kind::Other(_) => None,
        });
        totals.map(|totals| totals.into_py_dict(py)).transpose()
    }

    /// Returns the number of episodes that bsuite specifies; `None` for environments outside bsuite.
    fn num_episodes(&self) -> Option<u64> {
        self.stepped.with(|stepped| match &stepped.kind {
            Kind::Bsuite(_, episodes) => Some(*episodes),
            Kind::Other(_) => None,
        })
    }

    fn reset<'py>(&self, py: Python<'py>) -> PyResult<Answer<'py>> {
        let answer = self.stepped.with(|Stepped { kind, observation, .. }| {
            Ok((kind.environment().reset(observation.view_mut())?, observation.clone()))
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
        let answer = self.stepped.with(|Stepped { kind, observation, action }| {
            let action = given.as_ref().unwrap_or(action);
            let action = choice.map_or_else(|| Action::Nest(action.view()), Action::Discrete);
            Ok((kind.environment().step(action, observation.view_mut())?, observation.clone()))
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
