//! Batches from outside that a Python run learns from, such as the batches of a `relive.gpu.Loader`.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use relive_rl::plan::{Batch, BatchSource};
use relive_rl::run::LearnerInput;
use relive_rl::{Acted, Result, Saveable};

use super::Raised;
use super::learner::ToArrays;

/// A `relive.rl._given.SourceBridge`.
pub(super) struct GivenSource {
    bridge: Py<PyAny>,
    raised: Raised,
    /// The name of the method that returns batches, for messages.
    method: Arc<str>,
}

/// A batch from outside the run, which is opaque to Rust.
pub(super) struct GivenBatch(Py<PyAny>);

/// Passes batches from outside to the learner.
pub(super) struct GivenBatches;

impl GivenSource {
    pub(super) fn new(bridge: Py<PyAny>, raised: Raised) -> GivenSource {
        GivenSource { bridge, raised, method: "the next batch of the data".into() }
    }
}

impl BatchSource for GivenSource {
    type Batch = GivenBatch;

    fn next_batch(&mut self) -> Result<Option<GivenBatch>> {
        let bridge = &self.bridge;
        let next = self.raised.call_named(&self.method, |py| {
            bridge
                .bind(py)
                .call_method0(intern!(py, "next_batch"))
                .map(|batch| (!batch.is_none()).then(|| batch.unbind()))
        });
        Ok(next?.map(GivenBatch))
    }
}

impl Saveable for GivenSource {
    fn save(&mut self) -> Vec<u8> {
        self.raised.save(&self.bridge)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.raised.restore(&self.bridge, state)
    }
}

impl Batch for GivenBatch {
    fn take_acted(&mut self) -> Vec<Acted> {
        Vec::new()
    }

    fn learner_input(&self) -> Option<LearnerInput<'_>> {
        None
    }
}

impl ToArrays for GivenBatches {
    type Batch = GivenBatch;

    fn learn<'py>(&self, bridge: &Bound<'py, PyAny>, batch: &GivenBatch) -> PyResult<Bound<'py, PyAny>> {
        let py = bridge.py();
        bridge.call_method1(intern!(py, "learn_given"), (batch.0.bind(py),))
    }
}
