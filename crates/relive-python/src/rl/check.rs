//! The conformance suite of environments, for those of Python.

use pyo3::prelude::*;
use relive_env::{Action, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut, conformance};

use super::foreign::{ForeignEnvironment, Raised};

/// Tries the environments that `make` gives for seeds, as bridges; rule and detail of the first rule that is broken.
#[pyfunction]
pub(crate) fn check_environment(
    py: Python<'_>,
    make: &Bound<'_, PyAny>,
) -> PyResult<Option<(&'static str, String)>> {
    let (make, raised) = (make.clone().unbind(), Raised::default());
    let new = |seed: u64| {
        Python::attach(|py| ForeignEnvironment::new(make.bind(py).call1((seed,))?, raised.clone()))
    };
    let spec = new(0)?.spec().clone();
    let checked = py.detach(|| {
        conformance::check(|seed| Made {
            environment: new(seed).map_err(|error| EnvError::Failed(raised.keep(error))),
            spec: spec.clone(),
        })
    });
    match (raised.take(), checked) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(None),
        (None, Err(violation)) => Ok(Some((violation.rule, violation.detail))),
    }
}

/// An environment, or why it could not be made.
struct Made {
    environment: Result<ForeignEnvironment, EnvError>,
    spec: EnvironmentSpec,
}

impl Environment for Made {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.as_ref().map_or(&self.spec, Environment::spec)
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.as_mut().map_err(|error| error.clone())?.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.as_mut().map_err(|error| error.clone())?.step(action, observation)
    }
}
