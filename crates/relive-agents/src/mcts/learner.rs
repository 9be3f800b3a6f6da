//! One gradient step per batch.

use relive_nn::{Adam, Optimizer, Params, Scratch};
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, SampleBatch, Transitions};
use relive_rl::{Learner, Learnt, Result, RlError, Saveable, Weights};

use super::MctsConfig;
use super::dynamics::Outcomes;
use super::loss::{Losses, loss};
use super::network::Networks;
use super::policy::extras;
use crate::saved::{self, Saved};
use crate::{together, weights};

/// Learns the policy from searches, the value from the reward and the value of the next observation, and, if the model
/// is learned, the model itself.
#[derive(Debug)]
pub(super) struct MctsLearner {
    networks: Networks,
    discount: f32,
    params: Params,
    optimizer: Optimizer,
    batch: Transitions,
    actions: Vec<usize>,
    inputs: Vec<f32>,
    gradient: Vec<f32>,
    scratch: Scratch,
    peers: Peers,
}

impl MctsLearner {
    pub(super) fn new(config: &MctsConfig, crew: &Crew) -> Result<MctsLearner> {
        let (networks, params) = Networks::new(config, crew.spec(), crew.learner_key())?;
        let adam = Adam { learning_rate: config.learning_rate, ..Adam::default() };
        let optimizer = Optimizer::adam(adam, &params);
        let batch = Transitions::new(crew.spec(), config.discount)?;
        Ok(MctsLearner {
            optimizer: optimizer.max_gradient_norm(config.max_gradient_norm),
            batch: batch.with_extras(&extras(networks.actions))?,
            discount: config.discount,
            gradient: vec![0.0; params.values().len()],
            networks,
            params,
            actions: Vec::new(),
            inputs: Vec::new(),
            scratch: Scratch::default(),
            peers: Peers::alone(),
        })
    }

    /// Returns `r + γ·d·V` for each transition, where V is the value of its last observation.
    fn targets(&mut self) -> Vec<f32> {
        let Self { networks, params, batch, scratch, .. } = self;
        let width = networks.network.outputs();
        let next = networks.network.infer(params, &batch.next_observations, scratch);
        let values = next.chunks_exact(width).map(|row| row[width - 1]);
        let steps = batch.rewards.iter().zip(&batch.discounts);
        steps.zip(values).map(|((reward, discount), value)| reward + discount * value).collect()
    }

    /// Writes the gradient for the batch to the gradient buffer. Returns the losses, and the loss of a learned model.
    fn differentiate(&mut self) -> (Losses, Option<f32>) {
        let targets = self.targets();
        let Self { networks, params, batch, gradient, actions, inputs, .. } = self;
        let found = networks.network.gradient_into(params, &batch.observations, gradient, |outputs, by| {
            loss(outputs, &targets, &batch.extras, by)
        });
        let of_model = networks.dynamics.as_ref().map(|dynamics| {
            dynamics.inputs(&batch.observations, actions, inputs);
            // Transitions span one step here, so the agent's own discount is divided out.
            let own = if self.discount > 0.0 { self.discount } else { 1.0 };
            batch.discounts.iter_mut().for_each(|discount| *discount /= own);
            let Transitions { next_observations, rewards, discounts, .. } = &*batch;
            let seen = Outcomes { next_observations, rewards, discounts };
            dynamics
                .network
                .gradient_into(params, inputs, gradient, |outputs, by| dynamics.loss(outputs, seen, by))
        });
        (found, of_model)
    }
}

impl Learner for MctsLearner {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        self.batch.read(&batches)?;
        self.networks.actions.numbers(&self.batch.actions, &mut self.actions)?;
        drop(batches);
        let (found, of_model) = self.differentiate();
        let loss = found.value + found.policy + of_model.unwrap_or(0.0);
        let Self { optimizer, params, gradient, peers, .. } = self;
        let norm = together::step(optimizer, params, gradient, peers)?;
        // The parameters already contain non-finite values, although the next loss may be finite.
        if !norm.is_finite() || !loss.is_finite() {
            return Err(RlError::Diverged { step: self.optimizer.steps(), loss });
        }
        let mut metrics = vec![
            ("loss", f64::from(loss)),
            ("policy_loss", f64::from(found.policy)),
            ("value_loss", f64::from(found.value)),
        ];
        metrics.extend(of_model.map(|loss| ("model_loss", f64::from(loss))));
        Ok(Learnt { steps: 1, samples: self.actions.len() as u64, metrics, priorities: Vec::new() })
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }

    fn share(&mut self, peers: Peers) -> Result<()> {
        self.peers = peers;
        Ok(())
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "a learner of MCTS";

impl Saveable for MctsLearner {
    fn save(&mut self) -> Vec<u8> {
        let Self { params, optimizer, .. } = self;
        saved::save(&mut [Saved::Params(params), Saved::Optimizer(optimizer)])
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { params, optimizer, .. } = self;
        saved::restore(WHAT, &mut [Saved::Params(params), Saved::Optimizer(optimizer)], bytes)
    }
}
