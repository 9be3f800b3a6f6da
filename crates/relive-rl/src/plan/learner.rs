//! Learning from batches.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{WeightStore, Weights};
use crate::{Result, Saveable};

/// Learns from one batch after the other.
pub trait Learner: Saveable + Send {
    /// What it learns from: a [`Rollout`](super::Rollout), or samples of a table.
    type Batch;

    /// Learns from a batch.
    ///
    /// # Errors
    /// The batch cannot be learned from; [`Diverged`](crate::RlError::Diverged) if the loss is not finite.
    fn learn(&mut self, batch: Self::Batch) -> Result<Learnt>;

    /// What policies act by, as of now.
    ///
    /// # Errors
    /// They cannot be published.
    fn weights(&self) -> Result<Weights>;
}

/// What a learner tells of a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Learnt {
    /// Gradient steps that were made.
    pub steps: u64,
    /// Items that they were made from, each counted as often as it was used.
    pub samples: u64,
    /// Numbers to be logged, by name, such as the loss.
    pub metrics: Vec<(&'static str, f64)>,
}

/// The learner of a run, as the operators of its plan share it. What it learns is published. Cheap to clone.
#[derive(Debug)]
pub struct SharedLearner<L> {
    learner: Arc<Mutex<L>>,
    weights: WeightStore,
}

impl<L> Clone for SharedLearner<L> {
    fn clone(&self) -> Self {
        Self { learner: Arc::clone(&self.learner), weights: self.weights.clone() }
    }
}

impl<L: Learner> SharedLearner<L> {
    pub(super) fn new(learner: L, weights: WeightStore) -> Result<Self> {
        weights.publish(learner.weights()?);
        Ok(Self { learner: Arc::new(Mutex::new(learner)), weights })
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
        let result = change(&mut learner)?;
        self.weights.publish(learner.weights()?);
        Ok(result)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        self.learner.lock().save()
    }
}
