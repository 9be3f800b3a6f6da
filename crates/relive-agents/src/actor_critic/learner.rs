//! Gradient steps over the minibatches of a rollout.

use relive_env::{State, TimeStep};
use relive_nn::{Optimizer, Params, Stream};
use relive_rl::plan::{Crew, Learner, Learnt, Rollout, Weights};
use relive_rl::{Result, RlError, Saveable};

use super::experience::Experience;
use super::head::Head;
use super::loss::{PolicyFound, PolicyLoss, value_loss};
use super::moments::Moments;
use super::network::ActorCritic;
use super::{Optimization, Settings};
use crate::weights;

/// Scaled rewards are clipped to this on either side.
const MAX_REWARD: f32 = 10.0;

/// Learns a policy and the value of states from rollouts.
///
/// One gradient of both networks together is made for each minibatch, over which the norm is bounded. Statistics of observations are
/// those of the rollouts before: what a policy acted by is what is learned by.
#[derive(Debug)]
pub struct ActorCriticLearner {
    settings: Settings,
    network: ActorCritic,
    params: Params,
    optimizer: Optimizer,
    stream: Stream,
    /// Of observations, if they are normalised.
    observations: Option<Moments>,
    /// Of discounted returns, and those of each row as far as they have come, if rewards are normalised.
    returns: Option<(Moments, Vec<f32>)>,
    env_steps: u64,
    budget: u64,
    experience: Experience,
    minibatch: Minibatch,
}

/// A part of a rollout, in memory that is used again.
#[derive(Debug, Default)]
struct Minibatch {
    rows: Vec<f32>,
    choices: Vec<usize>,
    drawn: Vec<f32>,
    old: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
    gradient: Vec<f32>,
}

/// Sums of what minibatches have told.
#[derive(Debug, Default)]
struct Told {
    policy: PolicyFound,
    value_loss: f32,
    minibatches: u64,
}

impl ActorCriticLearner {
    /// A learner for the environments of a run.
    ///
    /// # Errors
    /// As [`ActorCriticPolicy::new`](super::ActorCriticPolicy::new).
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
        })
    }

    /// The rewards of a rollout as they are learned from.
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
        moments.add(&seen);
        let mut inverse_std = [1.0];
        moments.write(&mut [0.0], &mut inverse_std);
        let scale = inverse_std[0];
        plain.map(|reward| (reward * scale).clamp(-MAX_REWARD, MAX_REWARD)).collect()
    }

    /// How much of the run is left, from 1 to 0; 1 all the time if nothing is annealed.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a share")]
    fn left(&self) -> f32 {
        if !self.settings.anneal {
            return 1.0;
        }
        let done = self.env_steps as f64 / self.budget.max(1) as f64;
        (1.0 - done).max(0.0) as f32
    }

    /// One gradient step.
    fn improve(&mut self, cells: &[usize], left: f32) -> Result<(PolicyFound, f32)> {
        let Self { network, params, minibatch, experience, settings, .. } = self;
        minibatch.fill(experience, cells, network.value.inputs());
        if settings.normalize_advantages {
            standardize(&mut minibatch.advantages);
        }
        let Minibatch { rows, choices, drawn, old, advantages, returns, gradient } = minibatch;
        let clip = settings.clip.map(|clip| clip * left);
        let loss = PolicyLoss { old, advantages, clip, entropy_cost: settings.entropy_cost };
        let mut by_log_std = vec![0.0; network.log_std.len()];
        let log_std = &params.values()[network.log_std.clone()];
        let found =
            network.policy.gradient_into(params, rows, gradient, |outputs, by_outputs| match network.head {
                Head::Categorical { .. } => loss.categorical(outputs, choices, by_outputs),
                Head::Normal { .. } => loss.normal((outputs, log_std), drawn, by_outputs, &mut by_log_std),
            });
        gradient[network.log_std.clone()].copy_from_slice(&by_log_std);
        let of_values = network.value.gradient_into(params, rows, gradient, |values, by_values| {
            value_loss(values, returns, settings.value_cost, by_values)
        });
        self.optimizer.set_learning_rate(settings.optimization.learning_rate() * left);
        let norm = self.optimizer.step(params, gradient);
        let total = found.loss + of_values;
        if total.is_finite() && norm.is_finite() {
            return Ok((found, of_values));
        }
        Err(RlError::Diverged { step: self.optimizer.steps(), loss: total })
    }

    /// All epochs over the rollout that was filled in.
    fn epochs(&mut self, left: f32) -> Result<Told> {
        let mut told = Told::default();
        let mut cells = std::mem::take(&mut self.experience.learnable);
        let size = self.settings.minibatch_size.unwrap_or(cells.len()).max(1);
        'epochs: for _ in 0..self.settings.epochs {
            if size < cells.len() {
                shuffle(&mut cells, &mut self.stream);
            }
            for part in cells.chunks(size) {
                let (found, of_values) = self.improve(part, left)?;
                told.add(found, of_values);
                if self.settings.target_kl.is_some_and(|bound| found.divergence > 1.5 * bound) {
                    break 'epochs;
                }
            }
        }
        Ok(told)
    }

    /// Adds the observations of a rollout to the statistics by which the next is made.
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

impl Learner for ActorCriticLearner {
    type Batch = Rollout;

    fn learn(&mut self, rollout: Rollout) -> Result<Learnt> {
        let rewards = self.rewards(&rollout);
        let left = self.left();
        let discounts = (self.settings.discount, self.settings.gae_lambda);
        let Self { experience, network, params, .. } = self;
        experience.fill(network, params, (&rollout, &rewards), discounts)?;
        let cells = experience.learnable.len() as u64;
        let told = self.epochs(left)?;
        self.observe(&rollout);
        self.env_steps += cells;
        let samples = cells * self.settings.epochs as u64;
        Ok(Learnt { steps: told.minibatches, samples, metrics: told.metrics() })
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }
}

impl Saveable for ActorCriticLearner {
    fn save(&mut self) -> Vec<u8> {
        let mut arrays = [self.params.as_bytes().to_vec(), self.optimizer.to_bytes(), self.stream.to_bytes()];
        let mut version = self.params.version();
        let mut bytes = Vec::new();
        self.visit(&mut State::writer(&mut bytes), &mut arrays, &mut version);
        bytes
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let refused = |reason: &dyn std::fmt::Display| RlError::State {
            what: "a learner of policy and value",
            reason: reason.to_string(),
        };
        let (mut arrays, mut version) = (<[Vec<u8>; 3]>::default(), 0);
        let mut state = State::reader(bytes);
        self.visit(&mut state, &mut arrays, &mut version);
        state.finish().map_err(|error| refused(&error))?;
        let [params, optimizer, stream] = &arrays;
        self.params.set_bytes(params, version).map_err(|error| refused(&error))?;
        self.optimizer.set_bytes(optimizer).map_err(|error| refused(&error))?;
        self.stream = Stream::from_bytes(stream).map_err(|error| refused(&error))?;
        Ok(())
    }
}

impl ActorCriticLearner {
    fn visit(&mut self, state: &mut State<'_>, arrays: &mut [Vec<u8>; 3], version: &mut u64) {
        arrays.iter_mut().for_each(|array| state.bytes(array));
        state.field(version);
        state.field(&mut self.env_steps);
        if let Some(moments) = &mut self.observations {
            moments.visit(state);
        }
        if let Some((moments, returns)) = &mut self.returns {
            moments.visit(state);
            state.fields(returns);
        }
    }
}

impl Minibatch {
    /// Takes over these cells.
    fn fill(&mut self, experience: &Experience, cells: &[usize], width: usize) {
        fn gather<T: Copy>(out: &mut Vec<T>, from: &[T], cells: &[usize], width: usize) {
            out.clear();
            for cell in cells {
                out.extend_from_slice(&from[cell * width..(cell + 1) * width]);
            }
        }
        let numbers = experience.drawn.len() / experience.log_probabilities.len().max(1);
        gather(&mut self.rows, &experience.rows, cells, width);
        gather(&mut self.choices, &experience.choices, cells, usize::from(numbers == 0));
        gather(&mut self.drawn, &experience.drawn, cells, numbers);
        gather(&mut self.old, &experience.log_probabilities, cells, 1);
        gather(&mut self.advantages, &experience.found.advantages, cells, 1);
        gather(&mut self.returns, &experience.found.returns, cells, 1);
    }
}

impl Told {
    fn add(&mut self, found: PolicyFound, of_values: f32) {
        self.policy.loss += found.loss;
        self.policy.entropy += found.entropy;
        self.policy.divergence += found.divergence;
        self.policy.clipped += found.clipped;
        self.value_loss += of_values;
        self.minibatches += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "minibatches of a rollout")]
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mean = |sum: f32| f64::from(sum) / self.minibatches.max(1) as f64;
        vec![
            ("policy_loss", mean(self.policy.loss)),
            ("value_loss", mean(self.value_loss)),
            ("entropy", mean(self.policy.entropy)),
            ("approx_kl", mean(self.policy.divergence)),
            ("clip_fraction", mean(self.policy.clipped)),
        ]
    }
}

/// Shifts and scales numbers to mean 0 and standard deviation 1; one alone stays as it is.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
fn standardize(numbers: &mut [f32]) {
    if numbers.len() < 2 {
        return;
    }
    let count = numbers.len() as f32;
    let mean = numbers.iter().sum::<f32>() / count;
    let squares: f32 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let scale = 1.0 / ((squares / (count - 1.0)).sqrt() + 1e-8);
    numbers.iter_mut().for_each(|number| *number = (*number - mean) * scale);
}

/// Fisher and Yates.
fn shuffle(cells: &mut [usize], stream: &mut Stream) {
    for last in (1..cells.len()).rev() {
        cells.swap(last, stream.below(last + 1));
    }
}
