//! Python functions that observe the steps and batches of a run.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_rl::processes::Layouts;
use relive_rl::run::{AfterBatch, Hooks, LearnerInput};
use relive_rl::{Learnt, Rollout};

use super::foreign::{Raised, Rollouts};
use super::spec;
use crate::read::Presenter;

/// Returns the hooks of a run, from bridges that `relive.rl._hooks` creates: `on_step` for rollouts, `on_batch` for
/// batches.
pub(super) fn hooks(on_step: Option<Py<PyAny>>, on_batch: Option<Py<PyAny>>, raised: &Raised) -> Hooks {
    let mut hooks = Hooks::default();
    if let Some(bridge) = on_step {
        let (mut shown, raised) = (BatchConverter::new(bridge), raised.clone());
        hooks = hooks.on_rollout(move |rollout, layouts| {
            raised.call(|py| {
                let seen = shown.rollout(py, rollout, layouts)?;
                shown.bridge.bind(py).call1((seen,)).map(drop)
            })
        });
    }
    if let Some(bridge) = on_batch {
        let (mut shown, raised) = (BatchConverter::new(bridge), raised.clone());
        hooks = hooks.on_batch(move |seen, layouts| {
            let (seen, bridge) = raised
                .call(|py| Ok((shown.convert(py, seen, layouts)?.unbind(), shown.bridge.clone_ref(py))))?;
            let raised = raised.clone();
            let after_batch: AfterBatch =
                Box::new(move |learnt| raised.call(|py| call_after_batch(py, &bridge, seen, learnt)));
            Ok(after_batch)
        });
    }
    hooks
}

/// Reports the learner's results for an observed batch to its bridge.
fn call_after_batch(py: Python<'_>, bridge: &Py<PyAny>, seen: Py<PyAny>, learnt: &Learnt) -> PyResult<()> {
    let metrics = PyDict::new(py);
    learnt.metrics.iter().try_for_each(|(name, value)| metrics.set_item(*name, *value))?;
    bridge.bind(py).call1((seen, metrics)).map(drop)
}

/// Converts observed data to Python objects.
struct BatchConverter {
    bridge: Py<PyAny>,
    /// `None` before the first rollout.
    rollouts: Option<Rollouts>,
    batches: Presenter,
}

impl BatchConverter {
    fn new(bridge: Py<PyAny>) -> BatchConverter {
        BatchConverter { bridge, rollouts: None, batches: Presenter::new(true) }
    }

    fn convert<'py>(
        &mut self,
        py: Python<'py>,
        seen: LearnerInput<'_>,
        layouts: &Layouts,
    ) -> PyResult<Bound<'py, PyAny>> {
        match seen {
            LearnerInput::Rollout(rollout) => self.rollout(py, rollout, layouts),
            LearnerInput::Samples(batches) => {
                let shown = batches.iter().map(|batch| self.batches.show(py, batch));
                let shown = shown.collect::<PyResult<Vec<_>>>()?;
                self.bridge.bind(py).call_method1(intern!(py, "batches"), (shown,))
            }
        }
    }

    fn rollout<'py>(
        &mut self,
        py: Python<'py>,
        rollout: &Rollout,
        layouts: &Layouts,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bridge = self.bridge.bind(py);
        if self.rollouts.is_none() {
            bridge.call_method1(intern!(py, "begin"), (spec::to_python(py, &layouts.spec)?,))?;
        }
        let rollouts =
            self.rollouts.get_or_insert_with(|| Rollouts::new(&layouts.spec, layouts.extras.clone()));
        bridge.call_method(intern!(py, "rollout"), (), Some(&rollouts.show(py, rollout)?))
    }
}
