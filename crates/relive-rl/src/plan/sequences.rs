//! Batches of sequences, as rows of numbers.

use relive_client::SampleBatch;
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_tensor::Nest;

use crate::{Features, Result, RlError};

/// Sequences of the items that a [`SequenceAdder`](crate::adders::SequenceAdder) writes, in memory that is used again. They lie side by side,
/// time first: row `time · batch + sequence`. Sequences that are shorter than the longest are filled up with zeros.
#[derive(Debug)]
pub struct Sequences {
    /// Sequences.
    pub batch: usize,
    /// Rows of the longest.
    pub rows: usize,
    /// What was seen: `[rows · batch, width of the observations]`.
    pub observations: Vec<f32>,
    /// What was done then: `[rows · batch, width of the actions]`.
    pub actions: Vec<f32>,
    /// What that earned: `[rows · batch]`.
    pub rewards: Vec<f32>,
    /// How much the value of the next row counts, the agent's own discount included: `[rows · batch]`.
    pub discounts: Vec<f32>,
    /// Whether an episode begins with the row: `[rows · batch]`.
    pub starts: Vec<bool>,
    /// What else the policy wrote: `[rows · batch, width of the extras]`.
    pub extras: Vec<f32>,
    /// Rows of each: `[batch]`.
    pub lengths: Vec<usize>,
    /// How likely each was to be sampled: `[batch]`.
    pub probabilities: Vec<f32>,
    /// Under which keys the table has them: `[batch]`.
    pub keys: Vec<u64>,
    of_observations: Features,
    of_actions: Features,
    of_extras: Features,
    discount: f32,
    bytes: Vec<u8>,
}

/// Elements of a scalar in a batch, as bytes.
const SCALAR: usize = size_of::<f32>();

impl Sequences {
    /// Those of an environment and of a policy that writes such extras, for an agent with this discount.
    ///
    /// # Errors
    /// Observations, actions or extras that are not numbers.
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
            of_observations: Features::of(&spec.observations)?,
            of_actions: Features::of(&spec.actions)?,
            of_extras: Features::of(extras)?,
            discount,
            bytes: Vec::new(),
        })
    }

    /// Takes over what is in a batch.
    ///
    /// # Errors
    /// Its columns are not those of sequences in this environment.
    #[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
    pub fn read(&mut self, batch: &SampleBatch) -> Result<()> {
        self.batch = batch.len();
        self.keys.clear();
        self.probabilities.clear();
        for info in batch.infos() {
            self.keys.push(info.key);
            self.probabilities.push(info.probability as f32);
        }
        // The columns in the order of their names, as `step_spec` gives them.
        let of_discount = self.of_actions.leaf_bytes().count();
        let of_extras = of_discount + 1;
        let of_observations = of_extras + self.of_extras.leaf_bytes().count();
        let of_rewards = of_observations + self.of_observations.leaf_bytes().count();
        let lengths = batch.rows_per_sample(of_rewards)?;
        self.lengths = lengths.iter().map(|rows| usize::try_from(*rows).unwrap_or(usize::MAX)).collect();
        self.rows = self.lengths.iter().copied().max().unwrap_or(0);
        let shape = (self.batch, self.rows);
        for (first, out) in [(of_discount, &mut self.discounts), (of_rewards, &mut self.rewards)] {
            let bytes = padded(batch, first, (shape, SCALAR), &mut self.bytes)?;
            let numbers = bytes.chunks_exact(SCALAR).map(bytemuck::pod_read_unaligned);
            in_time(shape, numbers, out);
        }
        self.discounts.iter_mut().for_each(|discount| *discount *= self.discount);
        let flags = padded(batch, of_rewards + 1, (shape, 1), &mut self.bytes)?;
        in_time(shape, flags.iter().map(|flag| *flag != 0), &mut self.starts);
        let Self { of_observations: observations, of_actions: actions, of_extras: extras, bytes, .. } = self;
        for (first, features, out) in [
            (0, &*actions, &mut self.actions),
            (of_extras, &*extras, &mut self.extras),
            (of_observations, &*observations, &mut self.observations),
        ] {
            out.clear();
            out.resize(shape.0 * shape.1 * features.width(), 0.0);
            for (index, leaf_bytes) in features.leaf_bytes().enumerate() {
                let column = padded(batch, first + index, (shape, leaf_bytes), bytes)?;
                features.write_column_to(index, column, out, |row| row % shape.1 * shape.0 + row / shape.1);
            }
        }
        Ok(())
    }

    /// Whether something was done in a row whose outcome the sequence has: not in its last row, nor in the last of an episode.
    #[must_use]
    pub fn is_step(&self, time: usize, sequence: usize) -> bool {
        let next = (time + 1) * self.batch + sequence;
        self.lengths.get(sequence).is_some_and(|rows| time + 1 < *rows)
            && self.starts.get(next).is_some_and(|starts| !starts)
    }
}

/// A column of all sequences, `[batch, rows, …]`.
fn padded<'a>(
    batch: &SampleBatch,
    column: usize,
    ((sequences, rows), cell_bytes): ((usize, usize), usize),
    bytes: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    bytes.resize(sequences * rows * cell_bytes, 0);
    let most =
        u32::try_from(rows).map_err(|_| RlError::setting("rows of a sequence", rows, "below 2**32"))?;
    batch.gather_padded_into(column, most, bytes, None)?;
    Ok(bytes)
}

/// Puts numbers that lie sequence by sequence time first.
fn in_time<T: Copy + Default>(
    (sequences, rows): (usize, usize),
    numbers: impl Iterator<Item = T>,
    out: &mut Vec<T>,
) {
    out.clear();
    out.resize(sequences * rows, T::default());
    for (place, number) in numbers.enumerate() {
        out[place % rows * sequences + place / rows] = number;
    }
}
