//! The source of a run's environments.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use relive_env::{BatchEnvironment, EnvironmentSpec};
use relive_rl::Purpose;
use relive_rl::plan::{MakeEnvironment, MakeRows, Rows};

use super::foreign::{ForeignEnvironments, Raised};
use super::spec;

/// The source of a run's environments.
pub(super) enum Source {
    /// An environment in Rust, by its name.
    Native(String),
    /// A `relive.rl._sources.Source`.
    Foreign(Py<PyAny>),
}

impl Source {
    pub(super) fn of(environment: &Bound<'_, PyAny>) -> PyResult<Source> {
        match environment.cast::<PyString>() {
            Ok(name) => Ok(Source::Native(name.to_cow()?.into_owned())),
            Err(_) => Ok(Source::Foreign(environment.clone().unbind())),
        }
    }

    /// Returns the function that creates the environments of a run: those of its actors and, if they are others, those of
    /// its evaluations.
    pub(super) fn maker_of(
        (training, evaluation): (Source, Option<Source>),
        raised: &Raised,
    ) -> MakeEnvironment {
        let make = training.maker(raised.clone());
        match evaluation {
            Some(evaluation) => make.evaluating_in(evaluation.maker(raised.clone())),
            None => make,
        }
    }

    /// Returns the function that creates the environments; it stores exceptions of Python code.
    pub(super) fn maker(self, raised: Raised) -> MakeEnvironment {
        match self {
            Source::Native(name) => MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?)),
            Source::Foreign(source) => MakeEnvironment::together(Foreign { source, raised }),
        }
    }
}

/// Python environments.
struct Foreign {
    source: Py<PyAny>,
    raised: Raised,
}

impl MakeRows for Foreign {
    fn spec(&self, seed: u64) -> relive_rl::Result<EnvironmentSpec> {
        self.raised
            .call(|py| spec::from_python(&self.source.bind(py).call_method1(intern!(py, "specs"), (seed,))?))
    }

    fn are_saved(&self, _seed: u64, _purpose: Purpose) -> relive_rl::Result<bool> {
        Ok(false)
    }

    fn rows(&self, rows: Rows<'_>) -> relive_rl::Result<Box<dyn BatchEnvironment>> {
        let Rows { first, seeds, generation, purpose } = rows;
        let made = self.raised.call(|py| {
            let wanted = (first, seeds.to_vec(), generation, purpose == Purpose::Training);
            let bridge = self.source.bind(py).call_method1(intern!(py, "rows"), wanted)?;
            ForeignEnvironments::new(bridge, self.raised.clone())
        })?;
        Ok(Box::new(made))
    }
}
