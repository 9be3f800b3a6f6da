//! Draws the trajectories of a batch, and their steps.

use relive_gpu::select::{
    Order, Part, Pool, Selected, Selection, Selector, Summary, Weights, WeightsConfig, philox, power,
};
use relive_gpu::{Change, ErrorKind, Pinned, Reader, Shard, Trajectory};

use super::changes::Follower;
use super::raise::{Failed, Result};

/// The maximum number of rounds in which the draw replaces trajectories that were removed before they were pinned.
pub(super) const MAX_ROUNDS: usize = 64;

/// The stream of random numbers for steps. Selectors use the first of the 256 streams for each seed and step.
const STEPS_STREAM: u32 = 0x80 << 24;

/// How the current step of a drawn trajectory is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// Uniformly at random.
    Random,
    /// The position after the last step.
    Last,
}

/// The draws for a batch, in the order of its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drawn {
    pub(super) indices: Vec<u64>,
    pub(super) generations: Vec<u64>,
    pub(super) steps: Vec<u64>,
    pub(super) probabilities: Vec<f32>,
    pub(super) importance: Vec<f32>,
}

/// Draws trajectories according to the weights of a store, and tracks changes to those weights.
pub(super) struct Draws {
    pub(super) reader: Reader,
    /// `None` for a store in another process; all of its weights are read whenever one has changed.
    follower: Option<Follower>,
    weights: Weights,
    inserted: Vec<u64>,
    /// Whether the weights are up to date, that is, all rows were read at some time and all changes since then were
    /// applied. The weights are first read for the first draw, because a loader that only collects given trajectories
    /// needs no weights. A draw after refused changes also reads all rows.
    has_scanned: bool,
    /// The number of changes when all rows were read.
    changes: u64,
    pub(super) selector: Selector,
    pub(super) seed: u64,
    pub(super) selection: Selection,
    steps: Steps,
    /// The rows of a batch that could not be completed, if samples are limited: the next batch begins with these rows,
    /// because they have been counted as sampled.
    pub(super) unfinished: Option<Unfinished>,
}

/// The rows of a batch that could not be completed. Their steps have not been chosen yet.
type Unfinished = (Drawn, Pinned);

impl Draws {
    pub(super) fn new(
        reader: Reader,
        follower: Option<Follower>,
        (selection, exponent, max_weight): (Selection, f32, f32),
        steps: Steps,
        seed: u64,
    ) -> Result<Draws> {
        let (capacity, shard) = (reader.capacity(), reader.shard());
        let config = WeightsConfig {
            max_weight,
            exponent,
            first: shard.global(0),
            total_capacity: capacity * shard.ranks(),
            ..WeightsConfig::new(capacity)
        };
        let places = usize::try_from(capacity).unwrap_or(usize::MAX);
        Ok(Draws {
            weights: Weights::new(config)?,
            inserted: vec![0; places],
            has_scanned: false,
            changes: 0,
            selector: Selector::new(seed),
            reader,
            follower,
            seed,
            selection,
            steps,
            unfinished: None,
        })
    }

    /// Draws and pins `count` trajectories.
    pub(super) fn draw(&mut self, count: u64) -> Result<(Drawn, Pinned)> {
        self.follow()?;
        let step = self.selector.step();
        let (mut drawn, mut pinned) = match self.unfinished.take() {
            Some(begun) => begun,
            None => (Drawn::default(), self.reader.pin(&[])?),
        };
        let begun = usize::from(drawn.len() > 0);
        match self.draw_rest(count, &mut drawn, &mut pinned) {
            Ok(round) => {
                self.compute_importance(&mut drawn, begun + round);
                self.complete(&mut drawn, &pinned, step, 0..);
                Ok((drawn, pinned))
            }
            Err(failed) => {
                self.unfinished = (self.limits_samples() && drawn.len() > 0).then_some((drawn, pinned));
                Err(failed)
            }
        }
    }

    /// Returns the rows of a batch that could not be completed, in the form of complete draws.
    pub(super) fn unfinished(&self) -> Option<Drawn> {
        self.unfinished.as_ref().map(|(drawn, pinned)| Drawn {
            generations: pinned.rows().iter().map(|row| row.generation).collect(),
            steps: vec![0; pinned.rows().len()],
            ..drawn.clone()
        })
    }

    /// Pins the rows of an unfinished batch from a restored state.
    pub(super) fn begin_again(&self, drawn: Drawn, batch_size: u64) -> Result<Unfinished> {
        drawn.check(drawn.len())?;
        if drawn.len() >= batch_size {
            let text = format!(
                "the state has {} rows of an unfinished batch, but this loader's batches have {batch_size} rows",
                drawn.len()
            );
            return Err(Failed::new(ErrorKind::InvalidArgument, text));
        }
        let pinned = self.pin_again(&drawn)?;
        Ok((drawn, pinned))
    }

    /// Completes a batch. Returns the number of rounds before the last one.
    fn draw_rest(&mut self, count: u64, drawn: &mut Drawn, pinned: &mut Pinned) -> Result<usize> {
        for round in 0..MAX_ROUNDS {
            let selected = self.select(count - drawn.len())?;
            let (present, missing) = self.pin_drawn(&selected.indices)?;
            // If a selection has distinct indices, a second selection could return indices of the first one.
            if missing.is_empty() || !self.selects_once() {
                drawn.add(&selected, &missing);
                pinned.append(present)?;
            }
            if drawn.len() == count {
                return Ok(round);
            }
            self.scan_all()?;
        }
        Err(too_many_rounds(count))
    }

    /// Pins drawn trajectories and counts their samples. Also returns the positions of the other draws: their
    /// trajectories were removed or replaced after their weights were read, or were sampled the maximum number of
    /// times. If samples are limited and a selection with distinct indices is missing some of its trajectories, no
    /// sample is counted, because the whole selection is repeated.
    pub(super) fn pin_drawn(&mut self, indices: &[u64]) -> Result<(Pinned, Vec<usize>)> {
        if !self.limits_samples() {
            let (mut pinned, mut missing) = self.reader.pin_present(indices)?;
            self.drop_replaced(&mut pinned, &mut missing, indices.len());
            return Ok((pinned, missing));
        }
        let (pinned, mut missing) = self.hold_drawn(indices)?;
        if self.selects_once() && !missing.is_empty() {
            return Ok((pinned, missing));
        }
        let positions = others(&missing, indices.len());
        let held: Vec<u64> = pinned.rows().iter().map(|row| row.index).collect();
        let (counted, exhausted) = self.reader.pin_present(&held)?;
        missing.extend(exhausted.into_iter().map(|at| positions[at]));
        missing.sort_unstable();
        self.note_exhausted(&counted)?;
        Ok((counted, missing))
    }

    /// Returns whether ranks that draw together count samples only when their list is complete: if a selection with
    /// distinct indices is missing some of its trajectories, all ranks repeat it.
    pub(super) fn counts_late(&self) -> bool {
        self.limits_samples() && self.selects_once()
    }

    /// Returns whether drawn trajectories count as sampled before the whole list is drawn.
    pub(super) fn counts_early(&self) -> bool {
        self.limits_samples() && !self.selects_once()
    }

    /// Pins drawn trajectories like [`pin_drawn`](Self::pin_drawn), but does not count samples.
    pub(super) fn hold_drawn(&self, indices: &[u64]) -> Result<(Pinned, Vec<usize>)> {
        let (mut pinned, mut missing) = self.reader.hold(indices)?;
        self.drop_replaced(&mut pinned, &mut missing, indices.len());
        Ok((pinned, missing))
    }

    /// Counts samples of the trajectories that [`hold_drawn`](Self::hold_drawn) pinned.
    pub(super) fn count_held(&mut self, held: &Pinned) -> Result<()> {
        let indices: Vec<u64> = held.rows().iter().map(|row| row.index).collect();
        let (counted, _) = self.reader.pin_present(&indices)?;
        self.note_exhausted(&counted)
    }

    fn limits_samples(&self) -> bool {
        self.reader.max_times_sampled() > 0
    }

    /// Releases rows whose trajectory is not the one whose weight was read, and adds their positions to `missing`.
    fn drop_replaced(&self, pinned: &mut Pinned, missing: &mut Vec<usize>, draws: usize) {
        let shard = self.reader.shard();
        let is_same = |row: &Trajectory| {
            let place = shard.local(row.index).ok().and_then(|local| usize::try_from(local).ok());
            let read = place.and_then(|place| self.inserted.get(place));
            read.is_some_and(|&read| read == among_ranks(shard, row.inserted))
        };
        if pinned.rows().iter().all(is_same) {
            return;
        }
        let rows = others(missing, draws).into_iter().zip(pinned.rows());
        let replaced: Vec<usize> = rows.filter(|(_, row)| !is_same(row)).map(|(at, _)| at).collect();
        missing.extend(replaced);
        missing.sort_unstable();
        pinned.retain(is_same);
    }

    /// Sets the weights of trajectories that cannot be sampled again to 0.
    fn note_exhausted(&mut self, counted: &Pinned) -> Result<()> {
        let limit = self.reader.max_times_sampled();
        let exhausted: Vec<u64> =
            counted.rows().iter().filter(|row| row.sampled >= limit).map(|row| row.index).collect();
        Ok(self.weights.update(&exhausted, &vec![0.0; exhausted.len()])?)
    }

    fn select(&mut self, count: u64) -> Result<Selected> {
        let pool = Pool::with_inserted(&self.weights, &self.inserted);
        Ok(self.selector.select(&pool, self.selection, count, Order::AsDrawn)?)
    }

    /// Returns the data that this rank sends to the others before they select.
    pub(super) fn summary(&self, count: u64) -> Result<Summary> {
        let pool = Pool::with_inserted(&self.weights, &self.inserted);
        Ok(self.selector.summary(&pool, self.selection, count)?)
    }

    /// Returns the draws that selected this rank's trajectories.
    pub(super) fn part(&mut self, summaries: &[Summary], count: u64) -> Result<Part> {
        let pool = Pool::with_inserted(&self.weights, &self.inserted);
        let rank = usize::try_from(self.reader.shard().rank()).unwrap_or(usize::MAX);
        Ok(self.selector.select_with(&pool, summaries, rank, self.selection, count)?)
    }

    /// Pins earlier draws, which must still exist.
    pub(super) fn pin_again(&self, drawn: &Drawn) -> Result<Pinned> {
        // The draws were counted before the state was saved.
        let (pinned, missing) = self.reader.hold(&drawn.indices)?;
        if let Some(&at) = missing.first() {
            let text = format!(
                "the state has trajectory {} of generation {}, which the store no longer has: the state belongs to \
                 another store, or the store has changed since",
                drawn.indices[at], drawn.generations[at]
            );
            return Err(Failed::new(ErrorKind::NotFound, text));
        }
        let other = pinned
            .rows()
            .iter()
            .zip(&drawn.generations)
            .find(|(row, generation)| row.generation != **generation);
        if let Some((row, generation)) = other {
            let text = format!(
                "the state has trajectory {} of generation {generation}, but the store has generation {} \
                 there: the state belongs to another store, or the store has changed since",
                row.index, row.generation
            );
            return Err(Failed::new(ErrorKind::NotFound, text));
        }
        if let Some((row, step)) =
            pinned.rows().iter().zip(&drawn.steps).find(|(row, step)| **step > row.length)
        {
            let text = format!(
                "the state has step {step} of trajectory {}, which has {} steps: it is damaged",
                row.index, row.length
            );
            return Err(Failed::new(ErrorKind::InvalidArgument, text));
        }
        Ok(pinned)
    }

    /// Pins earlier draws without counting them again, if the same trajectories still exist. If a connection is lost,
    /// it tries once more over new connections.
    pub(super) fn try_pin_again(&self, drawn: &Drawn) -> Result<Option<Pinned>> {
        let held = match self.reader.hold(&drawn.indices) {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.reader.reconnect();
                self.reader.hold(&drawn.indices)
            }
            held => held,
        };
        let (pinned, _) = held?;
        let same = pinned.rows().iter().map(|row| row.generation).eq(drawn.generations.iter().copied());
        Ok(same.then_some(pinned))
    }

    pub(super) fn selects_once(&self) -> bool {
        use Selection::{Fifo, Lifo, TopK, WithoutReplacement};
        matches!(self.selection, TopK | Fifo | Lifo | WithoutReplacement)
    }

    /// Recomputes the importance weights of a list that was drawn in several rounds.
    pub(super) fn compute_importance(&self, drawn: &mut Drawn, round: usize) {
        if let (Selection::Prioritized { beta, .. }, 1..) = (self.selection, round) {
            // (N · p)^-β divided by the largest of the batch is (smallest p / p)^β.
            let least = drawn.probabilities.iter().copied().fold(f32::INFINITY, f32::min);
            drawn.importance = drawn.probabilities.iter().map(|p| power(least / p, beta)).collect();
        }
    }

    /// Adds the data of the pinned trajectories, at the given positions in the whole list.
    pub(super) fn complete(
        &self,
        drawn: &mut Drawn,
        pinned: &Pinned,
        step: u64,
        positions: impl Iterator<Item = u64>,
    ) {
        drawn.generations = pinned.rows().iter().map(|row| row.generation).collect();
        drawn.steps = match self.steps {
            Steps::Last => pinned.rows().iter().map(|row| row.length).collect(),
            Steps::Random => {
                let rows = positions.zip(pinned.rows());
                rows.map(|(position, row)| below(self.seed, step, position, row.length)).collect()
            }
        };
    }

    /// Applies the changes since the last call.
    pub(super) fn follow(&mut self) -> Result<()> {
        if self.follower.is_none() && self.has_scanned && self.reader.changes() == self.changes {
            return Ok(());
        }
        let pending = self.follower.as_ref().and_then(Follower::take);
        let Some(pending) = pending.filter(|pending| self.has_scanned && !pending.is_overfull) else {
            return self.scan_all();
        };
        let (mut indices, mut weights) = (Vec::new(), Vec::new());
        let shard = self.reader.shard();
        for Change { local, weight, inserted } in pending.changes {
            indices.push(shard.global(local));
            weights.push(weight);
            if let Some(place) = usize::try_from(local).ok().and_then(|at| self.inserted.get_mut(at)) {
                *place = among_ranks(shard, inserted);
            }
        }
        // The refused changes are lost, so the next call reads all rows.
        self.has_scanned = false;
        self.weights.update(&indices, &weights)?;
        self.has_scanned = true;
        Ok(())
    }

    /// Reads the weights of all rows.
    pub(super) fn scan_all(&mut self) -> Result<()> {
        self.has_scanned = false;
        self.changes = self.reader.changes();
        let mut now = vec![0.0; self.inserted.len()];
        // The numbers are read first: if a row is replaced in between, its trajectory has a later number than the one
        // that is read here, and is not mistaken for the earlier one.
        self.reader.read_inserted(&mut self.inserted)?;
        self.reader.read_weights(&mut now)?;
        let shard = self.reader.shard();
        self.inserted.iter_mut().for_each(|number| *number = among_ranks(shard, *number));
        let (mut indices, mut weights) = (Vec::new(), Vec::new());
        for ((index, new), old) in (shard.global(0)..).zip(&now).zip(self.weights.weights()) {
            if new.to_bits() != old.to_bits() {
                indices.push(index);
                weights.push(*new);
            }
        }
        // For many changes, recomputing the sums over all rows is faster than updating them one by one.
        if indices.len() > now.len() / 4 {
            self.weights.load(&now)?;
        } else {
            self.weights.update(&indices, &weights)?;
        }
        self.has_scanned = true;
        Ok(())
    }
}

/// Returns the positions below `count` that are not in the sorted list `missing`.
fn others(missing: &[usize], count: usize) -> Vec<usize> {
    let mut missing = missing.iter().peekable();
    (0..count).filter(|at| missing.next_if(|&next| next == at).is_none()).collect()
}

/// Returns an insertion number that can be compared between ranks: the first trajectory of every rank precedes the
/// second trajectory of any rank.
fn among_ranks(shard: Shard, inserted: u64) -> u64 {
    inserted.wrapping_mul(shard.ranks()).wrapping_add(shard.rank())
}

/// Returns the error after the last round.
pub(super) fn too_many_rounds(count: u64) -> Failed {
    let text = format!(
        "{count} trajectories were drawn {MAX_ROUNDS} times, but each time some were replaced before they \
         could be read; draw fewer, or create a larger store"
    );
    Failed::new(ErrorKind::Unavailable, text)
}

impl Drawn {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        self.indices.len() as u64
    }

    /// Checks that all lists have `rows` rows, which a restored state may violate.
    pub(super) fn check(&self, rows: u64) -> Result<()> {
        let Drawn { indices, generations, steps, probabilities, importance } = self;
        let counts = [indices.len(), generations.len(), steps.len(), probabilities.len(), importance.len()];
        if counts.iter().any(|&count| count as u64 != rows) {
            let text = format!(
                "the state has a batch of {counts:?} indices, generations, steps, probabilities and importance \
                 weights, but this loader's batches have {rows} rows"
            );
            return Err(Failed::new(ErrorKind::InvalidArgument, text));
        }
        Ok(())
    }

    /// Returns every `step`-th row, starting at `first`. Their steps have not been chosen yet.
    pub(super) fn every(&self, first: u64, step: u64) -> Drawn {
        fn pick<T: Copy>(all: &[T], first: u64, step: u64) -> Vec<T> {
            let [first, step] = [first, step].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            all.iter().skip(first).step_by(step).copied().collect()
        }
        Drawn {
            indices: pick(&self.indices, first, step),
            generations: pick(&self.generations, first, step),
            steps: Vec::new(),
            probabilities: pick(&self.probabilities, first, step),
            importance: pick(&self.importance, first, step),
        }
    }

    pub(super) fn add(&mut self, selected: &Selected, missing: &[usize]) {
        let mut missing = missing.iter().peekable();
        for position in 0..selected.indices.len() {
            if missing.next_if(|&&next| next == position).is_none() {
                self.indices.push(selected.indices[position]);
                self.probabilities.push(selected.probabilities[position]);
                self.importance.push(selected.importance[position]);
            }
        }
    }
}

/// Returns a number in `0..limit`. Its bias is below limit · 2⁻⁶⁴.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the halves of 64 bits and the upper half of 128 bits are wanted"
)]
fn below(seed: u64, step: u64, position: u64, limit: u64) -> u64 {
    let counter = [position as u32, (position >> 32) as u32, step as u32, (step >> 32) as u32 | STEPS_STREAM];
    let [low, high, ..] = philox(counter, [seed as u32, (seed >> 32) as u32]);
    let number = u128::from(low) | u128::from(high) << 32;
    ((number * u128::from(limit)) >> 64) as u64
}
