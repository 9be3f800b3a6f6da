//! Batches of sequences, as numeric rows.

use relive_client::SampleBatch;
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_tensor::Nest;

use super::transitions::comparable_probability;
use crate::{Features, Result, RlError};

/// Sequences from the items of a [`SequenceAdder`](crate::adders::SequenceAdder), in reused memory. They are side by
/// side, in time-major order: a step is in row `time · batch + sequence`. Shorter sequences are padded with zeros.
#[derive(Debug)]
pub struct Sequences {
    /// The number of sequences.
    pub batch: usize,
    /// The length of the longest sequence.
    pub rows: usize,
    /// The observations: `[rows · batch, width of the observations]`.
    pub observations: Vec<f32>,
    /// The actions: `[rows · batch, width of the actions]`.
    pub actions: Vec<f32>,
    /// The rewards: `[rows · batch]`.
    pub rewards: Vec<f32>,
    /// The discounts of the next row's value, including the agent's own discount: `[rows · batch]`.
    pub discounts: Vec<f32>,
    /// Whether an episode begins with this row: `[rows · batch]`.
    pub starts: Vec<bool>,
    /// The policy's extras: `[rows · batch, width of the extras]`.
    pub extras: Vec<f32>,
    /// The length of each sequence: `[batch]`.
    pub lengths: Vec<usize>,
    /// The sampling probability of each sequence: `[batch]`. In a batch from several tables, it is multiplied by the
    /// size of the sequence's table.
    pub probabilities: Vec<f32>,
    /// The key of each item: `[batch]`.
    pub keys: Vec<u64>,
    pictures: Option<Vec<u8>>,
    of_observations: Features,
    of_actions: Features,
    of_extras: Features,
    discount: f32,
    bytes: Vec<u8>,
}

/// The size of a scalar in bytes.
const SCALAR: usize = size_of::<f32>();

impl Sequences {
    /// Creates empty sequences for an environment, a policy with the given extras, and an agent with the given
    /// discount.
    ///
    /// # Errors
    /// Observations, actions or extras that are not numeric.
    pub fn new(spec: &EnvironmentSpec, extras: &Nest<ArraySpec>, discount: f32) -> Result<Sequences> {
        Ok(Sequences {
            batch: 0,
            rows: 0,
            observations: Vec::new(),
            actions: Vec::new(),
            rewards: Vec::new(),
            discounts: Vec::new(),
            starts: Vec::new(),
            extras: Vec::new(),
            lengths: Vec::new(),
            probabilities: Vec::new(),
            keys: Vec::new(),
            pictures: None,
            of_observations: Features::of_observations(&spec.observations)?,
            of_actions: Features::of(&spec.actions)?,
            of_extras: Features::of(extras)?,
            discount,
            bytes: Vec::new(),
        })
    }

    /// Keeps image observations as bytes: observations with a single leaf of bytes are then in
    /// [`pictures`](Self::pictures) instead of `observations`, which stays empty.
    #[must_use]
    pub fn with_pictures(mut self) -> Sequences {
        self.pictures = self.of_observations.one_of_bytes().map(|_| Vec::new());
        self
    }

    /// Returns the observations, if they stay bytes: `[rows · batch, bytes of a picture]`.
    #[must_use]
    pub fn pictures(&self) -> Option<&[u8]> {
        self.pictures.as_deref()
    }

    /// Reads batches, one from each table of a mixture, and places them side by side.
    ///
    /// # Errors
    /// The batches' columns do not match sequences in this environment.
    pub fn read(&mut self, batches: &[SampleBatch]) -> Result<()> {
        self.keys.clear();
        self.probabilities.clear();
        self.lengths.clear();
        for batch in batches {
            for info in batch.infos() {
                self.keys.push(info.key);
                self.probabilities.push(comparable_probability(&info, batches.len() > 1));
            }
            let lengths = batch.rows_per_sample(self.columns().rewards)?;
            self.lengths.extend(lengths.iter().map(|rows| usize::try_from(*rows).unwrap_or(usize::MAX)));
        }
        (self.batch, self.rows) = (self.lengths.len(), self.lengths.iter().copied().max().unwrap_or(0));
        let cells = self.batch * self.rows;
        for numbers in [&mut self.rewards, &mut self.discounts] {
            numbers.clear();
            numbers.resize(cells, 0.0);
        }
        self.starts.clear();
        self.starts.resize(cells, false);
        let numbers = match &mut self.pictures {
            Some(pictures) => {
                pictures.clear();
                pictures.resize(cells * self.of_observations.width(), 0);
                0
            }
            None => cells * self.of_observations.width(),
        };
        self.observations.clear();
        self.observations.resize(numbers, 0.0);
        for (features, out) in [(&self.of_actions, &mut self.actions), (&self.of_extras, &mut self.extras)] {
            out.clear();
            out.resize(cells * features.width(), 0.0);
        }
        let mut begin = 0;
        for batch in batches {
            self.read_at(begin, batch)?;
            begin += batch.len();
        }
        self.discounts.iter_mut().for_each(|discount| *discount *= self.discount);
        Ok(())
    }

    /// Reads a batch; its first sequence becomes number `begin`.
    fn read_at(&mut self, begin: usize, batch: &SampleBatch) -> Result<()> {
        let (columns, rows, all) = (self.columns(), self.rows, self.batch);
        let place = |cell: usize| cell % rows * all + begin + cell / rows;
        let Self { bytes, .. } = self;
        for (column, out) in [(columns.discounts, &mut self.discounts), (columns.rewards, &mut self.rewards)]
        {
            let numbers = padded(batch, column, (rows, SCALAR), bytes)?.chunks_exact(SCALAR);
            let numbers = numbers.map(bytemuck::pod_read_unaligned::<f32>);
            numbers.enumerate().for_each(|(cell, number)| out[place(cell)] = number);
        }
        let flags = padded(batch, columns.starts, (rows, 1), bytes)?.iter();
        flags.enumerate().for_each(|(cell, flag)| self.starts[place(cell)] = *flag != 0);
        let observations = (columns.observations, &self.of_observations, &mut self.observations);
        let mut of_numbers = vec![
            (0, &self.of_actions, &mut self.actions),
            (columns.extras, &self.of_extras, &mut self.extras),
        ];
        match &mut self.pictures {
            Some(pictures) => {
                let size = self.of_observations.width();
                let column = padded(batch, columns.observations, (rows, size), bytes)?;
                for (cell, picture) in column.chunks_exact(size.max(1)).enumerate() {
                    pictures[place(cell) * size..][..size].copy_from_slice(picture);
                }
            }
            None => of_numbers.push(observations),
        }
        for (first, features, out) in of_numbers {
            for (index, leaf_bytes) in features.leaf_bytes().enumerate() {
                let column = padded(batch, first + index, (rows, leaf_bytes), bytes)?;
                features.write_column_to(index, column, out, place);
            }
        }
        Ok(())
    }

    /// Returns the columns in the order of their names, as in [`step_spec`](crate::adders::step_spec); actions come
    /// first.
    fn columns(&self) -> Columns {
        let discounts = self.of_actions.leaf_bytes().count();
        let extras = discounts + 1;
        let observations = extras + self.of_extras.leaf_bytes().count();
        let rewards = observations + self.of_observations.leaf_bytes().count();
        Columns { discounts, extras, observations, rewards, starts: rewards + 1 }
    }

    /// Returns whether a row has an action with a known outcome: false for the last row of the sequence and the last
    /// row of an episode.
    #[must_use]
    pub fn is_step(&self, time: usize, sequence: usize) -> bool {
        let next = (time + 1) * self.batch + sequence;
        self.lengths.get(sequence).is_some_and(|rows| time + 1 < *rows)
            && self.starts.get(next).is_some_and(|starts| !starts)
    }
}

/// The positions of a sequence's columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    discounts: usize,
    extras: usize,
    observations: usize,
    rewards: usize,
    starts: usize,
}

/// Returns a column of the sequences of a batch, `[sequences, rows, …]`.
fn padded<'a>(
    batch: &SampleBatch,
    column: usize,
    (rows, cell_bytes): (usize, usize),
    bytes: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    bytes.resize(batch.len() * rows * cell_bytes, 0);
    let most =
        u32::try_from(rows).map_err(|_| RlError::setting("rows of a sequence", rows, "below 2**32"))?;
    batch.gather_padded_into(column, most, bytes, None)?;
    Ok(bytes)
}
