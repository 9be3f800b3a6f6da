//! The conformance suite of environments, for Python environments.

use pyo3::prelude::*;
use relive_env::{
    Action, BatchEnvironment, Buffer, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut, conformance,
};

use super::foreign::{ForeignEnvironments, Raised};
use crate::interpreter::finalization;

/// Tests the environments that `make` returns for given seeds, as bridges with one row. Returns the first violated rule
/// and its details.
#[pyfunction]
pub(crate) fn check_environment(
    py: Python<'_>,
    make: &Bound<'_, PyAny>,
) -> PyResult<Option<(&'static str, String)>> {
    let (make, raised) = (make.clone().unbind(), Raised::default());
    let new = |seed: u64| {
        finalization::attach(|py| ForeignEnvironments::new(make.bind(py).call1((seed,))?, raised.clone()))
    };
    let spec = new(0)?.spec().clone();
    let checked = py.detach(|| {
        conformance::check(|seed| CreatedEnvironment {
            environment: new(seed)
                .map_err(|error| EnvError::Failed(raised.keep(error)))
                .and_then(SingleEnvironment::new),
            spec: spec.clone(),
        })
    });
    match (raised.take(), checked) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(None),
        (None, Err(violation)) => Ok(Some((violation.rule, violation.detail))),
    }
}

/// A batch that contains a single environment.
struct SingleEnvironment {
    batch: ForeignEnvironments,
    observation: Buffer,
    action: Buffer,
}

impl SingleEnvironment {
    fn new(batch: ForeignEnvironments) -> Result<SingleEnvironment, EnvError> {
        Ok(SingleEnvironment { observation: batch.observations()?, action: batch.actions()?, batch })
    }

    /// Returns a step, or a reset without an action.
    fn answer(
        &mut self,
        action: Option<Action<'_>>,
        mut observation: ViewMut<'_>,
    ) -> Result<TimeStep, EnvError> {
        observation.expect_like(self.observation.view())?;
        let mut answers = [TimeStep::restart()];
        match action {
            None => self.batch.reset(&mut self.observation, &mut answers)?,
            Some(action) => {
                self.action.set_action(0, action)?;
                self.batch.step(&self.action, &mut self.observation, &mut answers)?;
            }
        }
        observation.copy_from(self.observation.view())?;
        let [answer] = answers;
        Ok(answer)
    }
}

/// An environment, or the error that occurred when it was created.
struct CreatedEnvironment {
    environment: Result<SingleEnvironment, EnvError>,
    spec: EnvironmentSpec,
}

impl CreatedEnvironment {
    fn answer(&mut self, action: Option<Action<'_>>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.as_mut().map_err(|error| error.clone())?.answer(action, observation)
    }
}

impl Environment for CreatedEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.as_ref().map_or(&self.spec, |environment| environment.batch.spec())
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.answer(None, observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.answer(Some(action), observation)
    }
}
