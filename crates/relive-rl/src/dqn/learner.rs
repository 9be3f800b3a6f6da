//! Learning from transitions.

use relive_client::BatchOptions;
use relive_client::blocking::{BatchSampler, Client};
use relive_env::EnvironmentSpec;
use relive_nn::losses::{self, Selected};
use relive_nn::{Adam, Optimizer, Params, Scratch};

use super::batch::Transitions;
use super::config::TABLE;
use super::{DqnConfig, QNetwork};
use crate::adders::TransitionColumns;
use crate::variables::Variables;
use crate::{Learner, Result, RlError};

/// One gradient step for each batch: importance-weighted Huber loss of double Q-learning, whose errors are the new priorities.
pub struct DqnLearner {
    config: DqnConfig,
    network: QNetwork,
    columns: TransitionColumns,
    client: Client,
    batches: BatchSampler,
    params: Params,
    target: Params,
    optimizer: Optimizer,
    variables: Variables,
    batch: Transitions,
    updates: Vec<(u64, f64)>,
    scratch: [Scratch; 2],
    steps: u64,
    loss: f32,
}

impl DqnLearner {
    /// A learner that begins with `params` and reads batches by `client`, `prefetch` of them ahead.
    ///
    /// # Errors
    /// Settings out of range, or a table that cannot be read.
    pub fn new(
        config: &DqnConfig,
        network: QNetwork,
        spec: &EnvironmentSpec,
        client: Client,
        params: Params,
        prefetch: usize,
    ) -> Result<DqnLearner> {
        config.validate()?;
        let batches = client.batch_sampler(TABLE, BatchOptions::new(config.batch_size).prefetch(prefetch))?;
        let adam = Adam { learning_rate: config.learning_rate, ..Adam::default() };
        let optimizer = Optimizer::adam(adam, &params);
        let optimizer = match config.max_gradient_norm {
            Some(norm) => optimizer.max_gradient_norm(norm),
            None => optimizer,
        };
        Ok(DqnLearner {
            config: config.clone(),
            network,
            columns: TransitionColumns::of(spec),
            client,
            batches,
            target: params.clone(),
            variables: Variables::new(params.clone()),
            params,
            optimizer,
            batch: Transitions::default(),
            updates: Vec::new(),
            scratch: Default::default(),
            steps: 0,
            loss: 0.0,
        })
    }

    /// Where its parameters are to be had.
    #[must_use]
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The loss of the last batch.
    #[must_use]
    pub fn loss(&self) -> f32 {
        self.loss
    }

    /// What the values of the actions taken should have been.
    fn targets(&mut self) -> Vec<f32> {
        let bound = self.config.max_abs_reward;
        self.batch.rewards.iter_mut().for_each(|reward| *reward = reward.clamp(-bound, bound));
        let discount = self.config.discount;
        self.batch.discounts.iter_mut().for_each(|of_step| *of_step *= discount);
        let [for_values, for_selector] = &mut self.scratch;
        let next = &self.batch.next_observations;
        let values = self.network.network.infer(&self.target, next, for_values);
        let selector = self.network.network.infer(&self.params, next, for_selector);
        losses::double_q_targets(&self.batch.rewards, &self.batch.discounts, values, selector)
    }

    /// Tells the table how surprising each transition was.
    fn update_priorities(&mut self, errors: &[f32]) -> Result<()> {
        self.updates.clear();
        let priorities = errors.iter().map(|error| f64::from(error.abs()));
        self.updates.extend(self.batch.keys.iter().copied().zip(priorities));
        Ok(self.client.mutate_priorities(TABLE, &self.updates, &[])?)
    }
}

impl Learner for DqnLearner {
    fn step(&mut self) -> Result<()> {
        let batch = self.batches.next();
        let batch = batch.ok_or(RlError::Order { call: "step", needs: "batches without an end" })??;
        self.batch.fill(&batch, self.columns, &self.network.features)?;
        drop(batch);
        if self.batch.actions.iter().any(|action| *action >= self.network.num_actions()) {
            let got = "transitions with actions beyond it".to_owned();
            return Err(RlError::Unsuited { expected: "the environment's number of actions", got });
        }
        let weights = losses::importance_weights(&self.batch.probabilities, self.config.importance_exponent);
        let targets = self.targets();
        let selected = Selected { actions: &self.batch.actions, weights: &weights };
        let huber = self.config.huber;
        let (found, gradient) =
            self.network.network.gradient(&self.params, &self.batch.observations, |q, by_q| {
                losses::q_loss(q, selected, &targets, huber, by_q)
            });
        self.optimizer.step(&mut self.params, &gradient);
        if self.steps.is_multiple_of(self.config.target_update_period) {
            self.target.copy_from(&self.params);
        }
        self.steps += 1;
        self.loss = found.loss;
        self.variables.put(self.params.clone());
        self.update_priorities(&found.rows)
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}
