//! Learning from batches.

use super::{Peers, Weights};
use crate::{Result, RlError, Saveable};

/// Learns from a series of batches.
pub trait Learner: Saveable + Send {
    /// The input: a [`Rollout`](crate::Rollout), or samples from a table.
    type Batch;

    /// Learns from a batch.
    ///
    /// # Errors
    /// The batch is unusable, or the loss is not finite ([`Diverged`](crate::RlError::Diverged)).
    fn learn(&mut self, batch: Self::Batch) -> Result<Learnt>;

    /// Returns the current weights, for policies.
    ///
    /// # Errors
    /// The weights cannot be published.
    fn weights(&self) -> Result<Weights>;

    /// Begins with what the learner of another run has learned, given as its [saved](Saveable::save) state: networks,
    /// optimizer and statistics. Keeps nothing that belongs to that run, such as its position in a schedule. Restores
    /// the state by default, for learners whose state has no such part.
    ///
    /// # Errors
    /// The state belongs to a learner of another kind, or to one with networks of other shapes.
    fn warm_start(&mut self, state: &[u8]) -> Result<()> {
        self.restore(state)
    }

    /// Joins a group of learners with the same settings and state, each in its own process. Each learner learns from
    /// its share of the data, and all learners apply the [mean](Peers::mean) of their gradients. This method must be
    /// called before the first batch.
    ///
    /// # Errors
    /// The learner cannot be combined with other learners, which is the default.
    fn share(&mut self, peers: Peers) -> Result<()> {
        Err(RlError::setting(
            "learners",
            peers.count(),
            "1 for this agent, whose learner cannot share gradients with other learners",
        ))
    }
}

/// A learner's report on a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Learnt {
    /// The number of gradient steps.
    pub steps: u64,
    /// The number of items used, each counted as often as it was used.
    pub samples: u64,
    /// Metrics for the log, by name, such as the loss.
    pub metrics: Vec<(&'static str, f64)>,
    /// New priorities of the items, by key; empty if priorities are not used.
    pub priorities: Vec<(u64, f64)>,
}
