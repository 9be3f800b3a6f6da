//! Networks with their optimizer, and the update of target networks.

use relive_nn::{Adam, Optimizer, Params};
use relive_rl::Result;
use relive_rl::learners::Peers;

use crate::saved::Saved;
use crate::together;

/// Networks with their parameters and optimizer.
#[derive(Debug)]
pub(crate) struct Trained<N> {
    pub(crate) networks: N,
    pub(crate) params: Params,
    pub(crate) optimizer: Optimizer,
    pub(crate) gradient: Vec<f32>,
    peers: Peers,
}

impl<N> Trained<N> {
    /// Creates networks that Adam optimizes with this step size.
    pub(crate) fn new((networks, params): (N, Params), learning_rate: f32) -> Trained<N> {
        let adam = Adam { learning_rate, ..Adam::default() };
        let gradient = vec![0.0; params.values().len()];
        Trained {
            networks,
            optimizer: Optimizer::adam(adam, &params),
            params,
            gradient,
            peers: Peers::alone(),
        }
    }

    /// Adds a bound on the gradient's norm, if one is given.
    #[must_use]
    pub(crate) fn bounded(self, norm: Option<f32>) -> Trained<N> {
        Trained { optimizer: self.optimizer.max_gradient_norm(norm), ..self }
    }

    /// From now on, learns together with other learners.
    pub(crate) fn share(&mut self, peers: &Peers) {
        self.peers = peers.clone();
    }

    /// Takes a step against the mean gradient of all learners. Returns the gradient's norm.
    ///
    /// # Errors
    /// Another learner has been lost.
    pub(crate) fn step(&mut self) -> Result<f32> {
        together::step(&mut self.optimizer, &mut self.params, &mut self.gradient, &self.peers)
    }

    /// Returns the parts that are saved.
    pub(crate) fn parts(&mut self) -> [Saved<'_>; 2] {
        [Saved::Params(&mut self.params), Saved::Optimizer(&mut self.optimizer)]
    }
}

/// When and how far target networks follow the online networks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TargetUpdate {
    /// Copied after every `period` steps (Mnih et al. 2015).
    Copy { period: u64 },
    /// Moved toward the online networks by the fraction `tau` after each step (Lillicrap et al. 2016).
    Move { tau: f32 },
}

impl TargetUpdate {
    /// Updates the target after step number `step`, counted from 1.
    pub(crate) fn follow(self, target: &mut Params, params: &Params, step: u64) {
        match self {
            Self::Copy { period } if step.is_multiple_of(period) => target.copy_from(params),
            Self::Copy { .. } => {}
            Self::Move { tau } => target.polyak_from(params, tau),
        }
    }
}
