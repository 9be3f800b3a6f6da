//! Learning from transitions.

use std::time::Duration;

use relive_client::blocking::{BatchSampler, Client};
use relive_client::{BatchOptions, ErrorKind};
use relive_env::EnvironmentSpec;
use relive_nn::Params;

use super::experience::{Experience, TABLE};
use super::{Transitions, ValueLearning, ValueSpace};
use crate::adders::TransitionColumns;
use crate::state;
use crate::variables::Variables;
use crate::{Learner, Result, RlError, Saveable};

/// Learns values from batches of transitions, whose errors are their new priorities.
pub struct ValueLearner {
    learning: Box<dyn ValueLearning>,
    space: ValueSpace,
    columns: TransitionColumns,
    discount: f32,
    client: Client,
    batches: BatchSampler,
    params: Params,
    variables: Variables,
    batch: Transitions,
    updates: Vec<(u64, f64)>,
    steps: u64,
    loss: f32,
}

impl ValueLearner {
    /// A learner that begins with `params` and reads batches by `client`, `prefetch` of them ahead.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn new(
        learning: Box<dyn ValueLearning>,
        params: Params,
        (spec, space): (&EnvironmentSpec, ValueSpace),
        experience: &Experience,
        client: &Client,
        prefetch: usize,
    ) -> Result<ValueLearner> {
        let options = BatchOptions::new(experience.batch_size).prefetch(prefetch);
        Ok(ValueLearner {
            learning,
            space,
            columns: TransitionColumns::of(spec),
            discount: experience.discount,
            client: client.clone(),
            batches: client.batch_sampler(TABLE, options)?,
            variables: Variables::new(params.clone()),
            params,
            batch: Transitions::default(),
            updates: Vec::new(),
            steps: 0,
            loss: 0.0,
        })
    }

    /// Tells the table how surprising each transition was.
    fn update_priorities(&mut self, errors: &[f32]) -> Result<()> {
        self.updates.clear();
        let priorities = errors.iter().map(|error| f64::from(error.abs()));
        self.updates.extend(self.batch.keys.iter().copied().zip(priorities));
        Ok(self.client.mutate_priorities(TABLE, &self.updates, &[])?)
    }
}

impl Learner for ValueLearner {
    fn step_within(&mut self, patience: Option<Duration>) -> Result<bool> {
        let batch = self.batches.next_within(patience);
        let batch = batch.ok_or(RlError::Order { call: "step", needs: "batches without an end" })?;
        let batch = match batch {
            Err(error) if error.kind() == ErrorKind::Timeout => return Ok(false),
            batch => batch?,
        };
        self.batch.fill(&batch, self.columns, &self.space.features, self.discount)?;
        drop(batch);
        if self.batch.actions.iter().any(|action| *action >= self.space.num_actions) {
            let got = "transitions with actions beyond it".to_owned();
            return Err(RlError::Unsuited { expected: "the environment's number of actions", got });
        }
        let found = self.learning.improve(&mut self.params, &mut self.batch);
        self.steps += 1;
        self.loss = found.loss;
        if !found.loss.is_finite() || found.rows.iter().any(|row| !row.is_finite()) {
            return Err(RlError::Diverged { step: self.steps, loss: found.loss });
        }
        self.variables.put(self.params.clone());
        self.update_priorities(&found.rows)?;
        Ok(true)
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn variables(&self) -> &Variables {
        &self.variables
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("loss", f64::from(self.loss))]
    }
}

/// Whose state it is, in messages.
const WHAT: &str = "a learner";

impl Saveable for ValueLearner {
    fn save(&mut self) -> Vec<u8> {
        let mut parts = [self.params.as_bytes().to_vec(), self.learning.save()];
        let mut version = self.params.version();
        state::save(|state| {
            state.field(&mut self.steps);
            state.field(&mut version);
            parts.iter_mut().for_each(|part| state.bytes(part));
        })
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let (mut version, mut parts) = (0, [const { Vec::new() }; 2]);
        state::restore(WHAT, bytes, |state| {
            state.field(&mut self.steps);
            state.field(&mut version);
            parts.iter_mut().for_each(|part| state.bytes(part));
        })?;
        let [params, learning] = &parts;
        self.params.set_bytes(params, version).map_err(|error| RlError::state(WHAT, error))?;
        self.learning.restore(learning)?;
        self.variables.put(self.params.clone());
        Ok(())
    }
}
