//! Batches that come from elsewhere than a run's own tables.

use std::sync::Arc;

use parking_lot::Mutex;
use relive_flow::Flow;

use super::crew::Role;
use super::{Batch, Crew};
use crate::{Result, RlError, Saveable};

/// Where batches come from that are in no table of the run, such as a store of trajectories in shared memory or a
/// data set that is read as it is learned from.
pub trait BatchSource: Saveable + Send + 'static {
    /// What a learner gets.
    type Batch: Batch;

    /// The next batch; none at the end. The run waits for it.
    ///
    /// # Errors
    /// It cannot be had; the run ends.
    fn next_batch(&mut self) -> Result<Option<Self::Batch>>;
}

impl Crew {
    /// Batches of a source, as the learner asks for them. The source goes on where it was if the run is resumed, and
    /// is saved with the run.
    ///
    /// # Errors
    /// What was saved is not of such a source.
    pub fn batches<S: BatchSource>(&self, name: &str, mut source: S) -> Result<Flow<S::Batch>> {
        if self.learners() > 1 {
            let expected = "1 for an agent whose batches come from a source of its own: each learner would have the same";
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
