//! A batch of transitions, as a learner wants it.

use bytemuck::cast_slice_mut;
use relive_client::SampleBatch;
use relive_tensor::DType;

use crate::adders::TransitionColumns;
use crate::features::Features;
use crate::{Result, RlError};

/// A batch of transitions over several steps, in memory that is used again.
#[derive(Debug, Default)]
pub struct Transitions {
    /// Where they begin: `[batch, width of the features]`.
    pub observations: Vec<f32>,
    /// What was done there: `[batch]`.
    pub actions: Vec<usize>,
    /// What that earned until they end, each step discounted: `[batch]`.
    pub rewards: Vec<f32>,
    /// How much the value of where they end counts, the agent's own discount for the last step included: `[batch]`.
    pub discounts: Vec<f32>,
    /// Where they end: `[batch, width of the features]`.
    pub next_observations: Vec<f32>,
    /// How likely each was to be sampled: `[batch]`.
    pub probabilities: Vec<f32>,
    pub(super) keys: Vec<u64>,
    bytes: Vec<u8>,
}

impl Transitions {
    /// Takes over what is in `batch`, of an agent with this discount.
    #[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
    pub(super) fn fill(
        &mut self,
        batch: &SampleBatch,
        columns: TransitionColumns,
        features: &Features,
        discount: f32,
    ) -> Result<()> {
        let size = batch.len();
        self.keys.clear();
        self.probabilities.clear();
        for info in batch.infos() {
            self.keys.push(info.key);
            self.probabilities.push(info.probability as f32);
        }
        for numbers in [&mut self.rewards, &mut self.discounts] {
            numbers.resize(size, 0.0);
        }
        batch.gather_into(columns.reward(), cast_slice_mut(&mut self.rewards))?;
        batch.gather_into(columns.discount(), cast_slice_mut(&mut self.discounts))?;
        self.discounts.iter_mut().for_each(|of_steps| *of_steps *= discount);
        self.fill_actions(batch, columns)?;
        let (observation, next) = (columns.observation(), columns.next_observation());
        features.gather(batch, observation, &mut self.bytes, &mut self.observations)?;
        features.gather(batch, next, &mut self.bytes, &mut self.next_observations)
    }

    fn fill_actions(&mut self, batch: &SampleBatch, columns: TransitionColumns) -> Result<()> {
        let layouts = batch.columns()?;
        let dtype = layouts.get(columns.action()).map(|layout| layout.dtype);
        let element_bytes = dtype.and_then(DType::size_bytes).unwrap_or(0);
        self.bytes.resize(batch.len() * element_bytes, 0);
        batch.gather_into(columns.action(), &mut self.bytes)?;
        self.actions.clear();
        match dtype {
            Some(DType::Int32) => {
                let actions = self.bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
                self.actions.extend(actions.map(|action| usize::try_from(action).unwrap_or(usize::MAX)));
            }
            Some(DType::Int64) => {
                let actions = self.bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
                self.actions.extend(actions.map(|action| usize::try_from(action).unwrap_or(usize::MAX)));
            }
            dtype => {
                let actions = |dtype: DType| format!("actions of {}", dtype.numpy_name());
                let got = dtype.map_or_else(|| "no action".to_owned(), actions);
                return Err(RlError::Unsuited { expected: "discrete actions", got });
            }
        }
        Ok(())
    }
}
