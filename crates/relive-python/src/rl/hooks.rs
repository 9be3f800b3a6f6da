//! Python functions that observe the steps, batches and evaluations of a run.

use std::ops::ControlFlow;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_rl::processes::Layouts;
use relive_rl::run::{AfterBatch, Evaluated, Hooks, LearnerInput};
use relive_rl::{Agent, Learnt, Rollout, SavedPolicy};

use super::foreign::{Raised, Rollouts};
use super::policy::Policy;
use super::spec;
use crate::read::Presenter;

/// Returns the hooks of a run, from bridges that `relive.rl._hooks` creates: `on_step` for rollouts, `on_batch` for
/// batches, and `on_evaluation` for evaluations.
pub(super) fn hooks(
    [on_step, on_batch, on_evaluation]: [Option<Py<PyAny>>; 3],
    agent: &Arc<dyn Agent>,
    raised: &Raised,
) -> Hooks {
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
    if let Some(bridge) = on_evaluation {
        let (agent, raised) = (Arc::clone(agent), raised.clone());
        hooks = hooks.on_evaluation(move |ended| {
            let policy = SavedPolicy::with_weights(agent.as_ref(), ended.spec, ended.weights)?;
            let of_policy = raised.clone();
            raised.call(|py| call_after_evaluation(py, &bridge, ended, Policy::new(policy, of_policy)?))
        });
    }
    hooks
}

/// Reports an evaluation to its bridge, which decides whether the run continues.
fn call_after_evaluation(
    py: Python<'_>,
    bridge: &Py<PyAny>,
    ended: Evaluated<'_>,
    policy: Policy,
) -> PyResult<ControlFlow<()>> {
    let returns: Vec<f64> = ended.episodes.iter().map(|episode| episode.episode_return).collect();
    let lengths: Vec<u64> = ended.episodes.iter().map(|episode| episode.length).collect();
    let told = (returns, lengths, ended.env_steps, ended.learner_steps, policy);
    let is_over: bool = bridge.bind(py).call1(told)?.extract()?;
    Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
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
    /// `None` before the first batch.
    batches: Option<Presenter>,
}

impl BatchConverter {
    fn new(bridge: Py<PyAny>) -> BatchConverter {
        BatchConverter { bridge, rollouts: None, batches: None }
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
                let bridge = self.bridge.bind(py);
                let presenter = match &self.batches {
                    Some(presenter) => presenter,
                    None => {
                        let rows = bridge.getattr(intern!(py, "rows"))?.extract()?;
                        self.batches.insert(Presenter::new(Some(rows)))
                    }
                };
                let shown = batches.iter().map(|batch| presenter.show(py, batch));
                bridge.call_method1(intern!(py, "batches"), (shown.collect::<PyResult<Vec<_>>>()?,))
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
