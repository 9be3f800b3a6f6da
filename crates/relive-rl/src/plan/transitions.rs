//! Batches of transitions, as rows of numbers.

use bytemuck::cast_slice_mut;
use relive_client::SampleBatch;
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_tensor::Nest;

use crate::adders::TransitionColumns;
use crate::{Features, Result};

/// Transitions of the items that a [`TransitionAdder`](crate::adders::TransitionAdder) writes, in memory that is used
/// again.
#[derive(Debug)]
pub struct Transitions {
    /// Where they begin: `[batch, width of the observations]`.
    pub observations: Vec<f32>,
    /// What was done there: `[batch, width of the actions]`.
    pub actions: Vec<f32>,
    /// What that earned until they end, each step discounted: `[batch]`.
    pub rewards: Vec<f32>,
    /// How much the value of where they end counts, the agent's own discount for the last step included: `[batch]`.
    pub discounts: Vec<f32>,
    /// Where they end: `[batch, width of the observations]`.
    pub next_observations: Vec<f32>,
    /// What the actor had to tell besides where they begin: `[batch, width of the extras]`.
    pub extras: Vec<f32>,
    /// How likely each was to be sampled: `[batch]`.
    pub probabilities: Vec<f32>,
    /// Under which keys the table has them: `[batch]`.
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
    /// Those of an environment, for an agent with this discount.
    ///
    /// # Errors
    /// Observations or actions that are not numbers.
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
            of_observations: Features::of(&spec.observations)?,
            of_actions: Features::of(&spec.actions)?,
            of_extras: Features::of(&Nest::None)?,
            discount,
            bytes: Vec::new(),
        })
    }

    /// Those of an actor that has such extras.
    ///
    /// # Errors
    /// Extras that are not numbers.
    pub fn with_extras(mut self, extras: &Nest<ArraySpec>) -> Result<Transitions> {
        self.of_extras = Features::of(extras)?;
        self.columns.extras = extras.len();
        Ok(self)
    }

    /// Those of an agent that sees pictures: observations that are one leaf of bytes stay bytes, and are
    /// [`pictures`](Self::pictures) in the place of `observations` and `next_observations`, which are empty then.
    #[must_use]
    pub fn with_pictures(mut self) -> Transitions {
        self.pictures =
            self.of_observations.one_of_bytes().map(|size| Pictures { size, ..Pictures::default() });
        self
    }

    /// The observations, and those where transitions end, if they stay bytes: `[batch, bytes of a picture]` each.
    #[must_use]
    pub fn pictures(&self) -> Option<[&[u8]; 2]> {
        self.pictures.as_ref().map(|pictures| [&pictures.now[..], &pictures.next[..]])
    }

    /// Takes over what is in batches, one behind the other: one of each table of a mixture.
    ///
    /// # Errors
    /// Their columns are not those of transitions in this environment.
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
            begin += batch.len();
        }
        self.discounts.iter_mut().for_each(|of_steps| *of_steps *= self.discount);
        Ok(())
    }

    /// Takes over a batch whose first transition becomes number `begin`.
    #[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
    fn read_at(&mut self, begin: usize, batch: &SampleBatch) -> Result<()> {
        for info in batch.infos() {
            self.keys.push(info.key);
            self.probabilities.push(info.probability as f32);
        }
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
    /// Bytes of one.
    size: usize,
    now: Vec<u8>,
    next: Vec<u8>,
}
