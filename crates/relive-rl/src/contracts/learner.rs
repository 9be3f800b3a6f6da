//! Learning from batches.

use super::{Peers, Weights};
use crate::{Result, RlError, Saveable};

/// Learns from one batch after the other.
pub trait Learner: Saveable + Send {
    /// What it learns from: a [`Rollout`](crate::Rollout), or samples of a table.
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

    /// From now on learns along with others of the same settings, each in a process of its own, that have the same
    /// state: each takes its part of what they learn from, and all go by the [mean](Peers::mean) of their gradients.
    /// It is called before the first batch.
    ///
    /// # Errors
    /// It learns alone only, as it does unless it says otherwise.
    fn share(&mut self, peers: Peers) -> Result<()> {
        Err(RlError::setting(
            "learners",
            peers.count(),
            "1 for this agent, whose learner does not share its gradients with others",
        ))
    }
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
    /// New priorities of the items that were learned from, by their keys; none where priorities do not count.
    pub priorities: Vec<(u64, f64)>,
}
