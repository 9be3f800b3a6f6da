//! Policies in Python.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use relive_env::{ArraySpec, EnvError, EnvironmentSpec};
use relive_rl::{ActStep, Policy, Result, Saveable, Weights};
use relive_tensor::Nest;

use super::Raised;
use super::weights::WeightArrays;
use crate::arrays::array;
use crate::nests::nest;
use crate::rl::leaves::Leaves;
use crate::rl::spec;

/// A `relive.rl._own.PolicyBridge`, which acts for all rows of a worker in one call.
pub(super) struct ForeignPolicy {
    bridge: Py<PyAny>,
    observations: Leaves,
    actions: Leaves,
    extras: Leaves,
    of_actions: Nest<ArraySpec>,
    of_extras: Nest<ArraySpec>,
    /// The name of the method that acts, for messages.
    method: Arc<str>,
    weight_arrays: WeightArrays,
    raised: Raised,
}

impl ForeignPolicy {
    pub(super) fn new(
        bridge: Bound<'_, PyAny>,
        spec: &EnvironmentSpec,
        (weight_arrays, raised): (WeightArrays, Raised),
    ) -> PyResult<ForeignPolicy> {
        let py = bridge.py();
        let of_extras = bridge.getattr(intern!(py, "extras"))?;
        let method = format!("{}.act()", bridge.getattr(intern!(py, "called"))?.extract::<String>()?);
        let of_extras = nest::to_nest(&of_extras, &mut |leaf| spec::leaf_from_python(leaf))?;
        Ok(ForeignPolicy {
            bridge: bridge.unbind(),
            observations: Leaves::new("observation", spec.observations.clone()),
            actions: Leaves::new("action", spec.actions.clone()).given_by(&method),
            extras: Leaves::new("extras", of_extras.clone()).given_by(&method),
            of_actions: spec.actions.clone(),
            of_extras,
            method: method.into(),
            weight_arrays,
            raised,
        })
    }
}

/// Leaves of the actions, and of the extras.
type Answer<'py> = (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

impl Policy for ForeignPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { bridge, observations, actions, extras, of_actions, method, raised, .. } = self;
        raised.call_named(method, |py| {
            let seen = observations.read_rows(py, step.observations, &[step.starts.len()])?;
            let starts = array::from_bools(py, step.starts)?;
            let answer = bridge.bind(py).call_method1(intern!(py, "act"), (seen, starts))?;
            let (acted, extra_leaves): Answer<'_> = answer.extract()?;
            actions.write_rows(&acted, step.actions)?;
            let allowed = step.actions.check_rows(of_actions).map_err(EnvError::of_action);
            allowed.map_err(|error| PyValueError::new_err(format!("{method}: {error}")))?;
            extras.write_rows(&extra_leaves, step.extras)
        })
    }

    fn load(&mut self, weights: &Weights) -> Result<()> {
        self.raised.call(|py| {
            let arrays = self.weight_arrays.of(py, weights)?;
            self.bridge.bind(py).call_method1(intern!(py, "load"), (arrays,)).map(drop)
        })
    }

    fn extras(&self) -> Nest<ArraySpec> {
        self.of_extras.clone()
    }

    fn name(&self) -> &str {
        &self.method
    }
}

impl Saveable for ForeignPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.raised.save(&self.bridge)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.raised.restore(&self.bridge, bytes)
    }
}
