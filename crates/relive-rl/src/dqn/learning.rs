//! One gradient step for each batch.

use relive_nn::losses::{self, BatchLoss, Selected};
use relive_nn::{Adam, Optimizer, Params, Scratch};

use super::loss::Evidence;
use super::{DqnConfig, QNetwork};
use crate::values::{Transitions, ValueLearning};
use crate::{Result, RlError, state};

/// Steps by an importance-weighted [loss](super::DqnLoss), with a target network.
pub(super) struct DqnLearning {
    config: DqnConfig,
    network: QNetwork,
    target: Params,
    optimizer: Optimizer,
    scratch: [Scratch; 3],
    steps: u64,
}

impl DqnLearning {
    pub(super) fn new(config: &DqnConfig, network: QNetwork, params: &Params) -> DqnLearning {
        let adam = Adam { learning_rate: config.learning_rate, ..Adam::default() };
        let optimizer = Optimizer::adam(adam, params);
        let optimizer = match config.max_gradient_norm {
            Some(norm) => optimizer.max_gradient_norm(norm),
            None => optimizer,
        };
        let (config, target) = (config.clone(), params.clone());
        DqnLearning { config, network, target, optimizer, scratch: Default::default(), steps: 0 }
    }

    /// What the outputs for the actions taken should have been.
    fn targets(&mut self, params: &Params, batch: &Transitions) -> Vec<f32> {
        let [for_target, for_online, for_before] = &mut self.scratch;
        let (network, rule) = (&self.network.network, self.network.rule);
        let before: &[f32] = match rule.looks_back() {
            true => network.infer(&self.target, &batch.observations, for_before),
            false => &[],
        };
        rule.targets(&Evidence {
            rewards: &batch.rewards,
            discounts: &batch.discounts,
            actions: &batch.actions,
            before,
            next_target: network.infer(&self.target, &batch.next_observations, for_target),
            next_online: network.infer(params, &batch.next_observations, for_online),
        })
    }
}

impl ValueLearning for DqnLearning {
    fn improve(&mut self, params: &mut Params, batch: &mut Transitions) -> BatchLoss {
        let (bound, huber, rule) = (self.config.max_abs_reward, self.config.huber, self.network.rule);
        batch.rewards.iter_mut().for_each(|reward| *reward = reward.clamp(-bound, bound));
        let weights = losses::importance_weights(&batch.probabilities, self.config.importance_exponent);
        let targets = self.targets(params, batch);
        let selected = Selected { actions: &batch.actions, weights: &weights };
        let (mut found, gradient) =
            self.network.network.gradient(params, &batch.observations, |outputs, by_outputs| {
                rule.loss(outputs, selected, (&targets, huber), by_outputs)
            });
        if !self.optimizer.step(params, &gradient).is_finite() {
            // It is in the parameters now, where the next loss need not show it.
            found.loss = f32::NAN;
        }
        if self.steps.is_multiple_of(self.config.target_update_period) {
            self.target.copy_from(params);
        }
        self.steps += 1;
        found
    }

    fn save(&mut self) -> Vec<u8> {
        let mut arrays = [self.target.as_bytes().to_vec(), self.optimizer.to_bytes()];
        let mut version = self.target.version();
        state::save(|state| {
            state.field(&mut self.steps);
            state.field(&mut version);
            arrays.iter_mut().for_each(|array| state.bytes(array));
        })
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        const WHAT: &str = "a DQN learner";
        let (mut version, mut arrays) = (0, [const { Vec::new() }; 2]);
        state::restore(WHAT, bytes, |state| {
            state.field(&mut self.steps);
            state.field(&mut version);
            arrays.iter_mut().for_each(|array| state.bytes(array));
        })?;
        let [target, optimizer] = &arrays;
        let misfit = |error| RlError::state(WHAT, error);
        self.target.set_bytes(target, version).map_err(misfit)?;
        self.optimizer.set_bytes(optimizer).map_err(misfit)
    }
}
