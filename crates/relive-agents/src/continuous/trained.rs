//! Networks and what improves them.

use relive_nn::{Adam, Optimizer, Params};

use crate::saved::Saved;

/// Networks with their parameters, and what improves these.
#[derive(Debug)]
pub(crate) struct Trained<N> {
    pub(crate) networks: N,
    pub(crate) params: Params,
    pub(crate) optimizer: Optimizer,
    pub(crate) gradient: Vec<f32>,
}

impl<N> Trained<N> {
    /// By Adam with this step size.
    pub(crate) fn new((networks, params): (N, Params), learning_rate: f32) -> Trained<N> {
        let adam = Adam { learning_rate, ..Adam::default() };
        let gradient = vec![0.0; params.values().len()];
        Trained { networks, optimizer: Optimizer::adam(adam, &params), params, gradient }
    }

    /// With a bound on the gradient's norm, if there is one.
    #[must_use]
    pub(crate) fn bounded(self, norm: Option<f32>) -> Trained<N> {
        let Trained { networks, params, optimizer, gradient } = self;
        let optimizer = match norm {
            Some(norm) => optimizer.max_gradient_norm(norm),
            None => optimizer,
        };
        Trained { networks, params, optimizer, gradient }
    }

    /// Goes against the gradient. The norm that it had.
    pub(crate) fn step(&mut self) -> f32 {
        self.optimizer.step(&mut self.params, &self.gradient)
    }

    /// What is saved of it.
    pub(crate) fn parts(&mut self) -> [Saved<'_>; 2] {
        [Saved::Params(&mut self.params), Saved::Optimizer(&mut self.optimizer)]
    }
}
