//! Where a run's environments come from.

use pyo3::prelude::*;
use pyo3::types::PyString;
use relive_env::Environment;
use relive_rl::RlError;

use super::foreign::{ForeignEnvironment, Raised};

/// Where a run's environments come from.
pub(super) enum Source {
    /// An environment in Rust, by its name.
    Native(String),
    /// A function of Python from seeds to bridges.
    Foreign(Py<PyAny>),
}

impl Source {
    pub(super) fn of(environment: &Bound<'_, PyAny>) -> PyResult<Source> {
        match environment.cast::<PyString>() {
            Ok(name) => Ok(Source::Native(name.to_cow()?.into_owned())),
            Err(_) => Ok(Source::Foreign(environment.clone().unbind())),
        }
    }

    /// The environment for a seed.
    pub(super) fn make(&self, seed: u64, raised: &Raised) -> relive_rl::Result<Box<dyn Environment>> {
        match self {
            Source::Native(name) => Ok(relive_env::make(name, seed)?),
            Source::Foreign(function) => Python::attach(|py| {
                let bridge = function.bind(py).call1((seed,))?;
                ForeignEnvironment::new(bridge, raised.clone())
            })
            .map(|made| Box::new(made) as Box<dyn Environment>)
            .map_err(|error| RlError::Foreign(raised.keep(error))),
        }
    }

    /// Whether it is Python code.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Source::Foreign(_))
    }
}
