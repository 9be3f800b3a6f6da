//! Learners in Python.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use relive_rl::learners::Peers;
use relive_rl::plan::SampleBatch;
use relive_rl::{Learner, Learnt, Result, RlError, Rollout, Saveable, Weights};

use super::metrics;
use super::rollout::Rollouts;
use super::{Raised, weights};
use crate::arrays::array;
use crate::read::Presenter;

/// A `relive.rl._own.LearnerBridge`, which learns from the arrays that `converter` creates.
pub(super) struct ForeignLearner<S> {
    /// `None` in a worker's process, which builds the plan but does not learn.
    bridge: Py<PyAny>,
    converter: S,
    raised: Raised,
    /// The name of the method that learns, for messages.
    method: Arc<str>,
    /// The version of the weights, which increases with every batch.
    version: u64,
    /// The number of gradient steps.
    steps: u64,
    peers: Peers,
    /// Whether the Python learner is connected to the other learners.
    has_shared: bool,
}

/// Converts a learner's batches to arrays.
pub(super) trait ToArrays: Send {
    type Batch;

    /// Calls the learner's bridge with the batch, and returns its result.
    fn learn<'py>(&self, bridge: &Bound<'py, PyAny>, batch: &Self::Batch) -> PyResult<Bound<'py, PyAny>>;

    /// Returns the part of a batch for one of several learners, and the factor by which its number of steps is
    /// multiplied to count the steps of all learners. The factor is 1 if each learner has its own batches, and greater
    /// if they share a batch.
    fn part(batch: Self::Batch, _: &Peers) -> Result<(Self::Batch, u64)> {
        Ok((batch, 1))
    }
}

impl ToArrays for Rollouts {
    type Batch = Rollout;

    fn learn<'py>(&self, bridge: &Bound<'py, PyAny>, rollout: &Rollout) -> PyResult<Bound<'py, PyAny>> {
        let py = bridge.py();
        bridge.call_method(intern!(py, "learn_rollout"), (), Some(&self.show(py, rollout)?))
    }

    fn part(rollout: Rollout, peers: &Peers) -> Result<(Rollout, u64)> {
        let rows = peers.part(rollout.rows);
        if rows.is_empty() {
            let expected = format!("at most {}, the number of environments of a rollout", rollout.rows);
            return Err(RlError::setting("learners", peers.count(), expected));
        }
        Ok((rollout.of_rows(rows)?, peers.count().into()))
    }
}

impl ToArrays for Presenter {
    type Batch = Vec<SampleBatch>;

    fn learn<'py>(
        &self,
        bridge: &Bound<'py, PyAny>,
        batches: &Vec<SampleBatch>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = bridge.py();
        let shown = batches.iter().map(|batch| self.show(py, batch)).collect::<PyResult<Vec<_>>>()?;
        bridge.call_method1(intern!(py, "learn_batches"), (shown,))
    }
}

impl<S> ForeignLearner<S> {
    pub(super) fn new(bridge: Bound<'_, PyAny>, converter: S, raised: Raised) -> PyResult<ForeignLearner<S>> {
        let name = bridge.getattr(intern!(bridge.py(), "called"))?.extract::<String>()?;
        let method = format!("{name}.learn()").into();
        Ok(Self::with(bridge.unbind(), converter, raised, method))
    }

    /// Returns the learner of another process, for the plan of a worker.
    pub(super) fn elsewhere(py: Python<'_>, converter: S, raised: Raised) -> ForeignLearner<S> {
        Self::with(py.None(), converter, raised, "learn()".into())
    }

    fn with(bridge: Py<PyAny>, converter: S, raised: Raised, method: Arc<str>) -> ForeignLearner<S> {
        ForeignLearner {
            bridge,
            converter,
            raised,
            method,
            version: 0,
            steps: 0,
            peers: Peers::alone(),
            has_shared: false,
        }
    }
}

/// The result of a bridge: gradient steps, samples, metrics, and keys with their new priorities.
type Answer<'py> = (u64, u64, Bound<'py, PyDict>, Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>);

fn learnt(answer: &Bound<'_, PyAny>) -> PyResult<Learnt> {
    let (steps, samples, metrics, priorities): Answer<'_> = answer.extract()?;
    let priorities = match priorities {
        Some((keys, priorities)) => {
            array::keys(&keys)?.into_iter().zip(array::floats(&priorities)?).collect()
        }
        None => Vec::new(),
    };
    Ok(Learnt { steps, samples, metrics: metrics::from_python(&metrics)?, priorities })
}

/// Returns the learner's results, or an error if a loss is not finite, because learning cannot continue in that case.
fn expect_finite(learnt: Learnt, method: &str, step: u64) -> PyResult<Learnt> {
    let is_loss = |name: &str| name.to_lowercase().contains("loss");
    match learnt.metrics.iter().find(|(name, value)| !value.is_finite() && is_loss(name)) {
        None => Ok(learnt),
        Some((name, value)) => Err(PyRuntimeError::new_err(format!(
            "{method} returned {value} for {name:?} at learner step {step}: learning has diverged; try a \
             smaller learning rate, clip the gradient, or check the loss for a logarithm of 0 or a division by \
             0"
        ))),
    }
}

impl<S: ToArrays> Learner for ForeignLearner<S> {
    type Batch = S::Batch;

    fn learn(&mut self, batch: S::Batch) -> Result<Learnt> {
        self.share_peers()?;
        let (batch, times) = match self.peers.is_alone() {
            true => (batch, 1),
            false => S::part(batch, &self.peers)?,
        };
        let answer = self.raised.call_named(&self.method, |py| {
            let learnt = learnt(&self.converter.learn(self.bridge.bind(py), &batch)?)?;
            let step = self.steps + learnt.steps;
            expect_finite(learnt, &self.method, step)
        });
        self.version += 1;
        let learnt = answer?;
        self.steps += learnt.steps;
        Ok(Learnt { samples: learnt.samples * times, ..learnt })
    }

    fn warm_start(&mut self, state: &[u8]) -> Result<()> {
        let (_, state) = counts(state);
        self.raised.call(|py| {
            let state = PyBytes::new(py, state);
            self.bridge.bind(py).call_method1(intern!(py, "warm_start"), (state,)).map(drop)
        })
    }

    fn share(&mut self, peers: Peers) -> Result<()> {
        self.raised.call(|py| self.bridge.bind(py).call_method0(intern!(py, "expect_shared")).map(drop))?;
        self.peers = peers;
        Ok(())
    }

    fn weights(&self) -> Result<Weights> {
        self.raised.call(|py| {
            if self.bridge.is_none(py) {
                return Ok(Weights::new(0, []));
            }
            let parts = self.bridge.bind(py).call_method0(intern!(py, "weights"))?;
            weights::from_python(self.version, &parts)
        })
    }
}

impl<S> ForeignLearner<S> {
    /// Connects the Python learner to the other learners once all have joined.
    fn share_peers(&mut self) -> Result<()> {
        if self.peers.is_alone() || std::mem::replace(&mut self.has_shared, true) {
            return Ok(());
        }
        let (rank, ranks) = (self.peers.rank(), self.peers.count());
        self.raised
            .call(|py| self.bridge.bind(py).call_method1(intern!(py, "share"), (rank, ranks)).map(drop))
    }
}

/// The number of bytes of a count in a saved state.
const COUNT: usize = size_of::<u64>();

impl<S> Saveable for ForeignLearner<S> {
    fn save(&mut self) -> Vec<u8> {
        let mut saved = [self.version.to_le_bytes(), self.steps.to_le_bytes()].concat();
        saved.extend(self.raised.save(&self.bridge));
        saved
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let state;
        ([self.version, self.steps], state) = counts(bytes);
        self.raised.restore(&self.bridge, state)
    }
}

/// Returns the counts at the start of a saved state, and the state of the bridge.
fn counts(bytes: &[u8]) -> ([u64; 2], &[u8]) {
    let (mut counts, mut left) = ([0; 2], bytes);
    for count in &mut counts {
        let Some((bytes, others)) = left.split_first_chunk::<COUNT>() else { break };
        (*count, left) = (u64::from_le_bytes(*bytes), others);
    }
    (counts, left)
}
