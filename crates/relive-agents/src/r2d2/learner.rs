//! One gradient step per batch of sequences.

use relive_nn::losses::{self, sequence_priority, transformed_n_step_targets};
use relive_nn::{Adam, Inputs, Optimizer, Params, RecurrentScratch, Steps};
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, SampleBatch, Sequences};
use relive_rl::{Learner, Learnt, Result, RlError, Saveable, Weights};
use relive_tensor::Nest;

use super::R2d2Config;
use super::network::QMemory;
use crate::off_policy::learnt;
use crate::recurrent_states::{RecurrentStates, states_of};
use crate::saved::{self, Saved};
use crate::{together, weights};

/// Learns from batches of sequences. The error of each sequence becomes its new priority.
#[derive(Debug)]
pub(super) struct R2d2Learner {
    config: R2d2Config,
    network: QMemory,
    params: Params,
    target: Params,
    optimizer: Optimizer,
    batch: Sequences,
    actions: Vec<usize>,
    gradient: Vec<f32>,
    scratch: RecurrentScratch,
    peers: Peers,
}

/// The results of a batch.
#[derive(Debug, Default)]
struct BatchResult {
    loss: f32,
    priorities: Vec<f32>,
}

impl R2d2Learner {
    pub(super) fn new(config: &R2d2Config, crew: &Crew) -> Result<R2d2Learner> {
        let (network, params) = QMemory::new(config, crew.spec(), crew.learner_key())?;
        let (learning_rate, epsilon) = (config.learning_rate, config.adam_epsilon);
        let adam = Optimizer::adam(Adam { learning_rate, epsilon, ..Adam::default() }, &params);
        let extras = Nest::dict(RecurrentStates::extras(&network.network));
        let batch = Sequences::new(crew.spec(), &extras, config.discount)?;
        Ok(R2d2Learner {
            optimizer: adam.max_gradient_norm(config.max_gradient_norm),
            batch: if network.torso.sees_pictures() { batch.with_pictures() } else { batch },
            config: config.clone(),
            network,
            target: params.clone(),
            gradient: vec![0.0; params.values().len()],
            params,
            actions: Vec::new(),
            scratch: RecurrentScratch::default(),
            peers: Peers::alone(),
        })
    }

    /// Takes a step with the loaded batch.
    fn improve(&mut self) -> Result<BatchResult> {
        let Self { config, network, params, target, optimizer, batch, actions, gradient, scratch, peers } =
            self;
        let (sequences, network) = (batch.batch, &network.network);
        let first = &batch.extras[..batch.extras.len() / batch.rows.max(1)];
        let state = states_of(first, sequences, network.units(), 0);
        let cuts: Vec<bool> = (0..batch.rows * sequences)
            .map(|row| row / sequences == config.burn_in_length && !batch.starts[row % sequences])
            .collect();
        let steps = Steps { cuts: &cuts, ..Steps::new(sequences, &batch.starts) };
        let seen = batch.pictures().map_or(Inputs::Floats(&batch.observations), Inputs::Bytes);
        let values = network.infer(target, seen, steps, &mut state.clone(), scratch);
        let weights = losses::importance_weights(&batch.probabilities, config.importance_exponent);
        let found = network.gradient_into(params, (seen, steps, &state), gradient, |outputs, by| {
            let mut found = BatchResult::default();
            for (sequence, weight) in weights.iter().enumerate() {
                let learned = Learned { config, batch, actions, sequence };
                let errors = learned.errors([outputs, values], *weight, by);
                let squares: f32 = errors.iter().map(|error| error * error).sum();
                found.loss += 0.5 * weight * squares / divisor(sequences);
                found.priorities.push(sequence_priority(&errors, config.max_priority_weight));
            }
            found
        });
        let before = optimizer.steps();
        let norm = together::step(optimizer, params, gradient, peers)?;
        if !(norm.is_finite() && found.loss.is_finite()) {
            return Err(RlError::Diverged { step: before + 1, loss: found.loss });
        }
        if before.is_multiple_of(config.target_update_period) {
            target.copy_from(params);
        }
        Ok(found)
    }
}

/// A sequence of the batch.
struct Learned<'a> {
    config: &'a R2d2Config,
    batch: &'a Sequences,
    actions: &'a [usize],
    sequence: usize,
}

impl Learned<'_> {
    /// Returns the differences between action values and their targets, step by step. Adds the gradient of half their
    /// squares with respect to the outputs to `by`.
    fn errors(&self, [online, target]: [&[f32]; 2], weight: f32, by: &mut [f32]) -> Vec<f32> {
        let Learned { config, batch, actions, sequence } = *self;
        let begin = if batch.starts[sequence] { 0 } else { config.burn_in_length };
        if begin >= batch.rows {
            // All sequences of the batch end within the burn-in, after which nothing is left to learn.
            return Vec::new();
        }
        let end = (begin..batch.rows).find(|time| !batch.is_step(*time, sequence)).unwrap_or(begin);
        let (count, places) = (online.len() / (batch.rows * batch.batch).max(1), begin..end);
        let row = |time: usize| time * batch.batch + sequence;
        let rows = |values: &[f32]| -> Vec<f32> {
            (begin..=end).flat_map(|time| &values[row(time) * count..][..count]).copied().collect()
        };
        let numbers = |of: &[f32]| -> Vec<f32> { places.clone().map(|time| of[row(time)]).collect() };
        let (rewards, discounts) = (numbers(&batch.rewards), numbers(&batch.discounts));
        let targets =
            transformed_n_step_targets(&rows(online), &rows(target), &rewards, &discounts, config.n_step);
        let mut errors = Vec::with_capacity(targets.len());
        for (time, target) in places.zip(targets) {
            let place = row(time) * count + actions[row(time)];
            let error = target - online[place];
            by[place] = -weight * error / divisor(batch.batch);
            errors.push(error);
        }
        errors
    }
}

#[expect(clippy::cast_precision_loss, reason = "sequences of a batch")]
fn divisor(sequences: usize) -> f32 {
    sequences.max(1) as f32
}

impl Learner for R2d2Learner {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        self.batch.read(&batches)?;
        // Only samples of the agent's own experience count toward the samples per insert.
        let samples = batches.first().map_or(0, SampleBatch::len) as u64;
        self.network.actions.numbers(&self.batch.actions, &mut self.actions)?;
        drop(batches);
        let BatchResult { loss, priorities } = self.improve()?;
        let priorities = (&self.batch.keys[..], priorities.into_iter());
        Ok(learnt(priorities, self.config.priority_exponent, samples, loss))
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
const WHAT: &str = "a learner of R2D2";

impl Saveable for R2d2Learner {
    fn save(&mut self) -> Vec<u8> {
        let Self { target, params, optimizer, .. } = self;
        saved::save(&mut [Saved::Params(target), Saved::Params(params), Saved::Optimizer(optimizer)])
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { target, params, optimizer, .. } = self;
        let parts = &mut [Saved::Params(target), Saved::Params(params), Saved::Optimizer(optimizer)];
        saved::restore(WHAT, parts, bytes)
    }
}
