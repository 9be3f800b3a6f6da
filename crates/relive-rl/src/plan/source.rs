//! Batches from outside a run's tables.

use std::sync::Arc;

use parking_lot::Mutex;
use relive_flow::Flow;

use super::crew::Role;
use super::{Batch, Crew};
use crate::{Result, RlError, Saveable};

/// A source of batches that do not come from a table of the run, such as a store of trajectories in shared memory or a
/// streamed data set.
pub trait BatchSource: Saveable + Send + 'static {
    /// The input of the learner.
    type Batch: Batch;

    /// Waits for the next batch. Returns `None` at the end.
    ///
    /// # Errors
    /// The batch is unavailable. The error ends the run.
    fn next_batch(&mut self) -> Result<Option<Self::Batch>>;
}

impl Crew {
    /// Returns batches from a source, at the learner's pace. The state of the source is saved with the run, and
    /// restored when the run is resumed.
    ///
    /// # Errors
    /// The saved state does not belong to this kind of source.
    pub fn batches<S: BatchSource>(&self, name: &str, mut source: S) -> Result<Flow<S::Batch>> {
        if self.learners() > 1 {
            let expected =
                "1 for an agent with its own source of batches: each learner would get the same batches";
            return Err(RlError::setting("learners", self.learners(), expected));
        }
        if let Role::Worker { .. } = self.role() {
            return Ok(Flow::from_iter(name, std::iter::empty()));
        }
        let part = format!("source {name}");
        self.saved(&part).map_or(Ok(()), |saved| source.restore(saved))?;
        let source = Arc::new(Mutex::new(source));
        let kept = Arc::clone(&source);
        self.keep_of_run(&part, Box::new(move || Some(kept.lock().save())));
        let batches = std::iter::from_fn(move || source.lock().next_batch().transpose());
        Ok(Flow::from_iter(name, batches).try_for_each(|batch| batch).named("batches"))
    }
}
