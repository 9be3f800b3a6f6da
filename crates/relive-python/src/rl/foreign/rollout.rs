//! Rollouts for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_env::{ArraySpec, EnvironmentSpec, TimeStep};
use relive_rl::Rollout;
use relive_tensor::Nest;

use crate::arrays::array;
use crate::rl::leaves::Leaves;

/// Converts rollouts to arrays in time-major order.
pub(in crate::rl) struct Rollouts {
    observations: Leaves,
    actions: Leaves,
    extras: Leaves,
    names: Vec<String>,
}

impl Rollouts {
    pub(in crate::rl) fn new(spec: &EnvironmentSpec, extras: Nest<ArraySpec>) -> Rollouts {
        Rollouts {
            observations: Leaves::new("observation", spec.observations.clone()),
            actions: Leaves::new("action", spec.actions.clone()),
            names: extras.flatten_with_paths().iter().map(|(path, _)| path.to_string()).collect(),
            extras: Leaves::new("extras", extras),
        }
    }

    /// Returns the keyword arguments for `_own.LearnerBridge.learn_rollout`.
    pub(in crate::rl) fn show<'py>(
        &self,
        py: Python<'py>,
        rollout: &Rollout,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (steps, rows) = (rollout.steps, rollout.rows);
        let fields = PyDict::new(py);
        let set = |name: &str, value: Bound<'py, PyAny>| {
            fields.set_item(name, value.call_method1("reshape", (steps, rows))?)
        };
        set("rewards", floats(py, rollout, |answer| answer.reward)?)?;
        set("discounts", floats(py, rollout, |answer| answer.discount)?)?;
        set("starts", flags(py, rollout, TimeStep::first)?)?;
        set("ends", flags(py, rollout, TimeStep::last)?)?;
        let dims = [steps, rows];
        fields.set_item(
            "observations",
            self.observations.read_rows(py, &rollout.observations, &[steps + 1, rows])?,
        )?;
        fields.set_item("actions", self.actions.read_rows(py, &rollout.actions, &dims)?)?;
        let extras = PyDict::new(py);
        for (name, array) in self.names.iter().zip(self.extras.read_rows(py, &rollout.extras, &dims)?) {
            extras.set_item(name, array)?;
        }
        fields.set_item("extras", extras)?;
        Ok(fields)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "agents learn from float32")]
fn floats<'py>(
    py: Python<'py>,
    rollout: &Rollout,
    value: impl Fn(&TimeStep) -> f64,
) -> PyResult<Bound<'py, PyAny>> {
    let values: Vec<f32> = rollout.answers.iter().map(|answer| value(answer) as f32).collect();
    array::from_elements(py, &values)
}

fn flags<'py>(
    py: Python<'py>,
    rollout: &Rollout,
    value: impl Fn(&TimeStep) -> bool,
) -> PyResult<Bound<'py, PyAny>> {
    let values: Vec<bool> = rollout.answers.iter().map(value).collect();
    array::from_bools(py, &values)
}
