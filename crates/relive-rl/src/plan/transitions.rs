//! Batches of transitions, as numeric rows.

use bytemuck::cast_slice_mut;
use relive_client::{SampleBatch, SampleInfo};
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_tensor::Nest;

use crate::adders::TransitionColumns;
use crate::{Features, Result};

/// Transitions from the items of a [`TransitionAdder`](crate::adders::TransitionAdder), in reused memory.
#[derive(Debug)]
pub struct Transitions {
    /// The initial observations: `[batch, width of the observations]`.
    pub observations: Vec<f32>,
    /// The actions: `[batch, width of the actions]`.
    pub actions: Vec<f32>,
    /// The discounted n-step rewards: `[batch]`.
    pub rewards: Vec<f32>,
    /// The discounts of the final state's value, including the agent's own discount for the last step: `[batch]`.
    pub discounts: Vec<f32>,
    /// The final observations: `[batch, width of the observations]`.
    pub next_observations: Vec<f32>,
    /// The actor's extras at the initial observation: `[batch, width of the extras]`.
    pub extras: Vec<f32>,
    /// The sampling probability of each transition: `[batch]`. In a batch from several tables, it is multiplied by the
    /// size of the transition's table.
    pub probabilities: Vec<f32>,
    /// The key of each item: `[batch]`.
    pub keys: Vec<u64>,
    columns: TransitionColumns,
    pictures: Option<Pictures>,
    of_observations: Features,
    of_actions: Features,
    of_extras: Features,
    discount: f32,
    bytes: Vec<u8>,
}

impl Transitions {
    /// Creates empty transitions for an environment, and an agent with the given discount.
    ///
    /// # Errors
    /// Observations or actions that are not numeric.
    pub fn new(spec: &EnvironmentSpec, discount: f32) -> Result<Transitions> {
        Ok(Transitions {
            observations: Vec::new(),
            actions: Vec::new(),
            rewards: Vec::new(),
            discounts: Vec::new(),
            next_observations: Vec::new(),
            extras: Vec::new(),
            probabilities: Vec::new(),
            keys: Vec::new(),
            columns: TransitionColumns::of(spec),
            pictures: None,
            of_observations: Features::of_observations(&spec.observations)?,
            of_actions: Features::of(&spec.actions)?,
            of_extras: Features::of(&Nest::None)?,
            discount,
            bytes: Vec::new(),
        })
    }

    /// Adds the extras of an actor.
    ///
    /// # Errors
    /// Extras that are not numeric.
    pub fn with_extras(mut self, extras: &Nest<ArraySpec>) -> Result<Transitions> {
        self.of_extras = Features::of(extras)?;
        self.columns.extras = extras.len();
        Ok(self)
    }

    /// Keeps image observations as bytes: observations with a single leaf of bytes are then in
    /// [`pictures`](Self::pictures) instead of `observations` and `next_observations`, which stay empty.
    #[must_use]
    pub fn with_pictures(mut self) -> Transitions {
        self.pictures =
            self.of_observations.one_of_bytes().map(|size| Pictures { size, ..Pictures::default() });
        self
    }

    /// Returns the initial and the final observations, if they stay bytes: `[batch, bytes of a picture]` each.
    #[must_use]
    pub fn pictures(&self) -> Option<[&[u8]; 2]> {
        self.pictures.as_ref().map(|pictures| [&pictures.now[..], &pictures.next[..]])
    }

    /// Reads batches one after the other, one from each table of a mixture.
    ///
    /// # Errors
    /// The batches' columns do not match transitions in this environment.
    pub fn read(&mut self, batches: &[SampleBatch]) -> Result<()> {
        let count = batches.iter().map(SampleBatch::len).sum();
        self.keys.clear();
        self.probabilities.clear();
        for numbers in [&mut self.rewards, &mut self.discounts] {
            numbers.resize(count, 0.0);
        }
        match &mut self.pictures {
            Some(Pictures { size, now, next }) => {
                now.resize(count * *size, 0);
                next.resize(count * *size, 0);
            }
            None => {
                self.observations.resize(count * self.of_observations.width(), 0.0);
                self.next_observations.resize(count * self.of_observations.width(), 0.0);
            }
        }
        self.actions.resize(count * self.of_actions.width(), 0.0);
        self.extras.resize(count * self.of_extras.width(), 0.0);
        let mut begin = 0;
        for batch in batches {
            self.read_at(begin, batch)?;
            self.read_infos(batch, batches.len() > 1);
            begin += batch.len();
        }
        self.discounts.iter_mut().for_each(|of_steps| *of_steps *= self.discount);
        Ok(())
    }

    fn read_infos(&mut self, batch: &SampleBatch, is_mixed: bool) {
        for info in batch.infos() {
            self.keys.push(info.key);
            self.probabilities.push(comparable_probability(&info, is_mixed));
        }
    }

    /// Reads a batch; its first transition becomes number `begin`.
    fn read_at(&mut self, begin: usize, batch: &SampleBatch) -> Result<()> {
        let rows = begin..begin + batch.len();
        batch.gather_into(self.columns.reward(), cast_slice_mut(&mut self.rewards[rows.clone()]))?;
        batch.gather_into(self.columns.discount(), cast_slice_mut(&mut self.discounts[rows.clone()]))?;
        let Self { columns, of_observations, of_actions, of_extras, bytes, .. } = self;
        for (first, features, out) in [
            (columns.action(), &*of_actions, &mut self.actions),
            (columns.extras(), of_extras, &mut self.extras),
        ] {
            let width = features.width();
            features.gather(batch, first, bytes, &mut out[rows.start * width..rows.end * width])?;
        }
        let (now, next) = (columns.observation(), columns.next_observation());
        if let Some(pictures) = &mut self.pictures {
            let place = rows.start * pictures.size..rows.end * pictures.size;
            batch.gather_into(now, &mut pictures.now[place.clone()])?;
            batch.gather_into(next, &mut pictures.next[place])?;
            return Ok(());
        }
        for (first, out) in [(now, &mut self.observations), (next, &mut self.next_observations)] {
            let place = rows.start * of_observations.width()..rows.end * of_observations.width();
            of_observations.gather(batch, first, bytes, &mut out[place])?;
        }
        Ok(())
    }
}

/// Observations that stay bytes.
#[derive(Debug, Default)]
struct Pictures {
    /// The size of one observation.
    size: usize,
    now: Vec<u8>,
    next: Vec<u8>,
}

/// Returns the probability of a sample. In a batch from several tables, it is relative to a uniform choice from the
/// sample's own table, because each table has a fixed share of the batch, whatever its size.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "weights are float32")]
pub(super) fn comparable_probability(info: &SampleInfo, is_mixed: bool) -> f32 {
    let items = if is_mixed { info.table_size as f64 } else { 1.0 };
    (info.probability * items) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_tables_of_different_sizes_can_be_compared() {
        let of = |items: u32| SampleInfo {
            key: 1,
            probability: 1.0 / f64::from(items),
            table_size: items.into(),
            priority: 1.0,
            times_sampled: 1,
            rate_limited: false,
        };
        assert_eq!([10, 1_000].map(|items| comparable_probability(&of(items), true)), [1.0, 1.0]);
        assert_eq!(comparable_probability(&of(10), false), 0.1);
    }
}
