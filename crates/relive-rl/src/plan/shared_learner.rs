//! The learner of a run.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::contracts::WeightStore;
use crate::run::Looking;
use crate::times::{Lap, SharedTimes};
use crate::{Learner, Learnt, Part, Result};

/// The learner of a run, as the operators of its plan share it. What it learns is published. Cheap to clone.
#[derive(Debug)]
pub struct SharedLearner<L> {
    learner: Arc<Mutex<L>>,
    weights: WeightStore,
    times: SharedTimes,
    hooks: Looking,
}

impl<L> Clone for SharedLearner<L> {
    fn clone(&self) -> Self {
        Self {
            learner: Arc::clone(&self.learner),
            weights: self.weights.clone(),
            times: self.times.clone(),
            hooks: self.hooks.clone(),
        }
    }
}

impl<L: Learner> SharedLearner<L> {
    pub(super) fn new(learner: L, weights: WeightStore, times: SharedTimes, hooks: Looking) -> Result<Self> {
        weights.publish(learner.weights()?);
        Ok(Self { learner: Arc::new(Mutex::new(learner)), weights, times, hooks })
    }

    /// Learns from a batch and publishes the new weights.
    ///
    /// # Errors
    /// Those of [`Learner::learn`]; nothing is published then.
    pub fn learn(&self, batch: L::Batch) -> Result<Learnt> {
        self.with(|learner| learner.learn(batch))
    }

    /// Changes the learner and publishes the new weights.
    ///
    /// # Errors
    /// Those of `change`; nothing is published then.
    pub fn with<R>(&self, change: impl FnOnce(&mut L) -> Result<R>) -> Result<R> {
        let mut learner = self.learner.lock();
        let mut lap = Lap::begin();
        let result = change(&mut learner)?;
        self.times.add(Part::Learn, lap.lap());
        self.weights.publish(learner.weights()?);
        self.times.add(Part::Weights, lap.lap());
        Ok(result)
    }

    pub(super) fn hooks(&self) -> &Looking {
        &self.hooks
    }

    pub(super) fn save(&self) -> Vec<u8> {
        self.learner.lock().save()
    }
}
