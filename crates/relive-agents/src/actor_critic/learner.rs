//! Gradient steps over the minibatches of a rollout.

use std::ops::Range;

use relive_env::{State, TimeStep};
use relive_nn::{Optimizer, Params, Stream};
use relive_rl::learners::Peers;
use relive_rl::plan::Crew;
use relive_rl::{Learner, Learnt, Result, RlError, Rollout, Saveable, Weights};

use super::experience::Experience;
use super::gradient::Gradient;
use super::head::Head;
use super::loss::{PolicyLoss, PolicyMetrics, value_loss};
use super::minibatch::{MetricSums, Minibatch, standardize};
use super::moments::Moments;
use super::network::ActorCritic;
use super::settings::{Optimization, Settings, share_left};
use crate::saved::{self, Saved};
use crate::weights;

/// Scaled rewards are clipped to ± this value.
const MAX_REWARD: f32 = 10.0;

/// Learns a policy and a value function from rollouts.
///
/// Each minibatch gives one gradient for both networks; its joint norm is bounded. The statistics of observations come
/// from earlier rollouts, so the learner normalizes observations exactly as the policy did when it acted.
#[derive(Debug, Clone)]
pub struct ActorCriticLearner {
    settings: Settings,
    network: ActorCritic,
    params: Params,
    optimizer: Optimizer,
    stream: Stream,
    /// Statistics of observations, if they are normalized.
    observations: Option<Moments>,
    /// Statistics of discounted returns, and the running return of each row, if rewards are normalized.
    returns: Option<(Moments, Vec<f32>)>,
    env_steps: u64,
    budget: u64,
    experience: Experience,
    minibatch: Minibatch,
    peers: Peers,
}

impl ActorCriticLearner {
    /// Creates a learner for the environments of a run.
    ///
    /// # Errors
    /// Same as [`ActorCriticPolicy::new`](super::ActorCriticPolicy::new).
    pub fn new(settings: &Settings, crew: &Crew) -> Result<ActorCriticLearner> {
        let key = crew.learner_key();
        let normalizes = settings.normalize_observations;
        let (network, params) = ActorCritic::new(crew.spec(), &settings.hidden, normalizes, key)?;
        let optimizer = match settings.optimization {
            Optimization::Adam(adam) => Optimizer::adam(adam, &params),
            Optimization::RmsProp(rms_prop) => Optimizer::rms_prop(rms_prop, &params),
        };
        let width = network.value.inputs();
        Ok(ActorCriticLearner {
            optimizer: optimizer.max_gradient_norm(settings.max_gradient_norm),
            stream: key.child("minibatches").stream(),
            observations: normalizes.then(|| Moments::new(width)),
            returns: settings.normalize_rewards.then(|| (Moments::new(1), vec![0.0; crew.environments()])),
            env_steps: 0,
            budget: crew.env_steps(),
            experience: Experience::default(),
            minibatch: Minibatch { gradient: vec![0.0; params.values().len()], ..Minibatch::default() },
            settings: settings.clone(),
            network,
            params,
            peers: Peers::alone(),
        })
    }

    /// Returns the rewards of a rollout, scaled if the settings request it.
    #[expect(clippy::cast_possible_truncation, reason = "networks learn in float32")]
    fn rewards(&mut self, rollout: &Rollout) -> Vec<f32> {
        let plain = rollout.answers.iter().map(|answer| answer.reward as f32);
        let Some((moments, returns)) = &mut self.returns else { return plain.collect() };
        let discounted = |(cell, answer): (usize, &TimeStep)| {
            let of_row = &mut returns[cell % rollout.rows];
            *of_row =
                if answer.first() { 0.0 } else { self.settings.discount * *of_row + answer.reward as f32 };
            *of_row
        };
        let seen: Vec<f32> = rollout.answers.iter().enumerate().map(discounted).collect();
        // Cells in which an episode starts have no reward.
        let of_steps = seen.iter().zip(&rollout.answers).filter(|(_, answer)| !answer.first());
        moments.add(&of_steps.map(|(sum, _)| *sum).collect::<Vec<f32>>());
        let mut inverse_std = [1.0];
        moments.write(&mut [0.0], &mut inverse_std);
        let scale = inverse_std[0];
        plain.map(|reward| (reward * scale).clamp(-MAX_REWARD, MAX_REWARD)).collect()
    }

    fn left(&self) -> f32 {
        share_left(self.settings.anneal, self.env_steps, self.budget)
    }

    /// Writes the gradient for these cells to the gradient buffer. Returns the policy's metrics and the value loss.
    /// With several learners, each computes the gradient for its part.
    fn differentiate(&mut self, cells: &[usize], left: f32) -> Result<(PolicyMetrics, f32)> {
        let part = self.peers.part(cells.len());
        let own = (part.len(), cells.len());
        let (policy, of_values) = match part.is_empty() {
            true => self.of_nothing(),
            false => self.of_part(cells, part, left),
        };
        policy.mean_over_cells(of_values, &mut self.minibatch.gradient, own, &self.peers)
    }

    /// Returns the result of a learner whose part of the minibatch is empty, because there are more learners than
    /// cells.
    fn of_nothing(&mut self) -> (PolicyMetrics, f32) {
        self.minibatch.gradient.fill(0.0);
        (PolicyMetrics::default(), 0.0)
    }

    /// Returns the result for a part of these cells.
    fn of_part(&mut self, cells: &[usize], part: Range<usize>, left: f32) -> (PolicyMetrics, f32) {
        let Self { network, params, minibatch, experience, settings, .. } = self;
        minibatch.fill(experience, &cells[part.clone()], network.value.inputs());
        if settings.normalize_advantages {
            let mut advantages: Vec<f32> =
                cells.iter().map(|cell| experience.found.advantages[*cell]).collect();
            standardize(&mut advantages);
            minibatch.advantages.copy_from_slice(&advantages[part]);
        }
        let Minibatch { rows, choices, drawn, old, advantages, returns, gradient } = minibatch;
        let clip = settings.clip.map(|clip| clip * left);
        let loss = PolicyLoss { old, advantages, clip, entropy_cost: settings.entropy_cost };
        let mut by_log_std = vec![0.0; network.log_std.len()];
        let log_std = &params.values()[network.log_std.clone()];
        let found = network.policy.gradient_into(params, &*rows, gradient, |outputs, by_outputs| {
            match &network.head {
                Head::Categorical(of) => loss.categorical(of.counts(), (outputs, choices), by_outputs),
                Head::Normal { .. } => loss.normal((outputs, log_std), drawn, by_outputs, &mut by_log_std),
            }
        });
        gradient[network.log_std.clone()].copy_from_slice(&by_log_std);
        let of_values = network.value.gradient_into(params, &*rows, gradient, |values, by_values| {
            value_loss(values, returns, settings.value_cost, by_values)
        });
        (found, of_values)
    }

    /// Takes an optimizer step with the gradient of this loss.
    fn step(&mut self, left: f32, loss: f32) -> Result<()> {
        self.optimizer.set_learning_rate(self.settings.optimization.learning_rate() * left);
        let norm = self.optimizer.step(&mut self.params, &self.minibatch.gradient);
        if loss.is_finite() && norm.is_finite() {
            return Ok(());
        }
        Err(RlError::Diverged { step: self.optimizer.steps(), loss })
    }

    /// Runs all epochs over the loaded rollout.
    fn epochs(&mut self, left: f32) -> Result<MetricSums> {
        let mut sums = MetricSums::default();
        let mut cells = std::mem::take(&mut self.experience.learnable);
        let size = self.settings.minibatch_size.unwrap_or(cells.len()).max(1);
        'epochs: for _ in 0..self.settings.epochs {
            if size < cells.len() {
                shuffle(&mut cells, &mut self.stream);
            }
            for part in cells.chunks(size) {
                let (found, of_values) = self.differentiate(part, left)?;
                sums.add(found, of_values, part.len());
                let is_beyond = |bound| found.divergence > 1.5 * bound && found.divergence.is_finite();
                if self.settings.target_kl.is_some_and(is_beyond) {
                    break 'epochs;
                }
                self.step(left, found.loss + of_values)?;
            }
        }
        Ok(sums)
    }

    /// Adds the observations of a rollout to the statistics that normalize the next one.
    fn observe(&mut self, rollout: &Rollout) {
        let (Some(moments), Some([mean, inverse_std])) = (&mut self.observations, &self.network.moments)
        else {
            return;
        };
        let mut rows = std::mem::take(&mut self.experience.rows);
        self.network.features.write_rows(&rollout.observations, &mut rows);
        moments.add(&rows[..rollout.steps * rollout.rows * mean.len()]);
        self.experience.rows = rows;
        let (before, after) = self.params.values_mut().split_at_mut(inverse_std.start);
        moments.write(&mut before[mean.clone()], &mut after[..inverse_std.len()]);
    }
}

impl ActorCriticLearner {
    /// Returns the gradient for a whole rollout, at the weights with which the worker acted.
    pub(super) fn gradient(&mut self, mut rollout: Rollout) -> Result<Gradient> {
        if let Some(newer) = rollout.weights.take() {
            weights::load(&mut self.params, &newer)?;
        }
        let rewards = self.rewards(&rollout);
        let discounts = (self.settings.discount, self.settings.gae_lambda);
        let Self { experience, network, params, .. } = self;
        experience.fill(network, params, (&rollout, &rewards), discounts)?;
        let cells = std::mem::take(&mut self.experience.learnable);
        let (found, of_values) = self.differentiate(&cells, 1.0)?;
        let mut sums = MetricSums::default();
        sums.add(found, of_values, cells.len());
        let (numbers, loss) = (self.minibatch.gradient.clone(), found.loss + of_values);
        Ok(Gradient { numbers, loss, cells: cells.len() as u64, sums, acted: rollout.acted })
    }

    /// Learns from a gradient that a worker computed.
    pub(super) fn apply(&mut self, gradient: Gradient) -> Result<Learnt> {
        let left = self.left();
        if gradient.numbers.len() != self.minibatch.gradient.len() {
            let reason = format!("{} numbers", gradient.numbers.len());
            return Err(RlError::state("a gradient for these networks", reason));
        }
        self.minibatch.gradient = gradient.numbers;
        self.step(left, gradient.loss)?;
        self.env_steps += gradient.cells;
        Ok(Learnt {
            steps: 1,
            samples: gradient.cells,
            metrics: gradient.sums.metrics(),
            ..Learnt::default()
        })
    }
}

impl Learner for ActorCriticLearner {
    type Batch = Rollout;

    fn learn(&mut self, rollout: Rollout) -> Result<Learnt> {
        let rewards = self.rewards(&rollout);
        let left = self.left();
        let discounts = (self.settings.discount, self.settings.gae_lambda);
        let Self { experience, network, params, .. } = self;
        experience.fill(network, params, (&rollout, &rewards), discounts)?;
        let cells = experience.learnable.len() as u64;
        let steps_before = self.optimizer.steps();
        let sums = self.epochs(left)?;
        self.observe(&rollout);
        self.env_steps += cells;
        // A rollout may end with a minibatch whose divergence prevents its step.
        let (steps, samples) = (self.optimizer.steps() - steps_before, sums.cells);
        Ok(Learnt { steps, samples, metrics: sums.metrics(), ..Learnt::default() })
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }

    fn warm_start(&mut self, state: &[u8]) -> Result<()> {
        let rows = self.rows();
        self.with_parts(|parts| saved::restore(WHAT, parts, state))?;
        self.env_steps = 0;
        if let Some((_, returns)) = &mut self.returns {
            *returns = vec![0.0; rows];
        }
        Ok(())
    }

    /// All learners receive the whole rollout and divide it into the same minibatches, so that all learners take the
    /// same steps and stop at the same step.
    fn share(&mut self, peers: Peers) -> Result<()> {
        self.peers = peers;
        Ok(())
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "a learner of policy and value";

impl Saveable for ActorCriticLearner {
    fn save(&mut self) -> Vec<u8> {
        self.with_parts(saved::save)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let rows = self.rows();
        self.with_parts(|parts| saved::restore(WHAT, parts, bytes))?;
        if self.rows() == rows {
            return Ok(());
        }
        let reason = format!("it has the returns of {} environments, not of {rows}", self.rows());
        Err(RlError::State { what: WHAT, reason })
    }
}

impl ActorCriticLearner {
    /// Returns the number of rows with a running return.
    fn rows(&self) -> usize {
        self.returns.as_ref().map_or(0, |(_, returns)| returns.len())
    }

    fn with_parts<R>(&mut self, then: impl FnOnce(&mut [Saved<'_>]) -> R) -> R {
        let Self { params, optimizer, stream, env_steps, observations, returns, .. } = self;
        let mut visit = |state: &mut State<'_>| {
            state.field(env_steps);
            if let Some(moments) = observations.as_mut() {
                moments.visit(state);
            }
            if let Some((moments, returns)) = returns.as_mut() {
                moments.visit(state);
                state.numbers(returns);
            }
        };
        then(&mut [
            Saved::Params(params),
            Saved::Optimizer(optimizer),
            Saved::Stream(stream),
            Saved::Fields(&mut visit),
        ])
    }
}

/// The Fisher–Yates shuffle.
fn shuffle(cells: &mut [usize], stream: &mut Stream) {
    for last in (1..cells.len()).rev() {
        cells.swap(last, stream.below(last + 1));
    }
}
