//! Columns, steps and episodes of one writer: everything that needs no server.

use std::collections::HashMap;
use std::sync::Arc;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_tensor::{ChunkLength, ChunkStatistic, Tensor};

use super::append_error::AppendFault;
use super::column_state::{ColumnName, ColumnState, Finished, Moment, Owner, Values};
use super::encode::Encoder;
use super::slot::ChunkSlot;
use crate::{Error, ErrorKind, Result};

#[derive(Debug)]
pub(crate) struct Recorder {
    writer_id: u64,
    rng: Xoshiro256PlusPlus,
    encoder: Encoder,
    columns: Vec<ColumnState>,
    default_length: ChunkLength,
    delta_encoded: bool,
    configured: HashMap<String, ChunkLength>,
    episode_id: u64,
    /// Completed steps of the episode.
    episode_steps: u64,
    /// Completed steps since the history was last cleared.
    history_steps: u64,
    step_is_open: bool,
}

impl Recorder {
    pub(crate) fn new(
        default_length: ChunkLength,
        mut rng: Xoshiro256PlusPlus,
        encoder: Encoder,
    ) -> Recorder {
        Recorder {
            encoder,
            writer_id: rng.random(),
            episode_id: draw_key(&mut rng),
            rng,
            columns: Vec::new(),
            default_length,
            delta_encoded: false,
            configured: HashMap::new(),
            episode_steps: 0,
            history_steps: 0,
            step_is_open: false,
        }
    }

    pub(crate) fn writer_id(&self) -> u64 {
        self.writer_id
    }

    pub(crate) fn columns(&self) -> &[ColumnState] {
        &self.columns
    }

    /// Bytes of the history's chunks that no table of this process has.
    pub(crate) fn unheld_bytes(&self) -> u64 {
        let chunks = self.columns.iter().flat_map(|column| column.cells().chunks());
        let unheld = chunks.filter_map(|chunk| chunk.shared()).filter(|chunk| !chunk.is_held());
        unheld.map(|chunk| chunk.size_bytes()).sum()
    }

    pub(crate) fn episode_steps(&self) -> u64 {
        self.episode_steps
    }

    pub(crate) fn step_is_open(&self) -> bool {
        self.step_is_open
    }

    pub(crate) fn history_len(&self) -> u64 {
        self.history_steps + u64::from(self.step_is_open)
    }

    /// Where in the history the next append goes.
    pub(crate) fn next_position(&self) -> u64 {
        self.history_steps
    }

    pub(crate) fn episode_id(&self) -> u64 {
        self.episode_id
    }

    /// Codes integers of columns to come as differences before compression.
    pub(crate) fn delta_encoded(self, delta_encoded: bool) -> Recorder {
        Recorder { delta_encoded, ..self }
    }

    /// A fresh key for an item.
    pub(crate) fn draw_key(&mut self) -> u64 {
        draw_key(&mut self.rng)
    }

    /// Adds columns at the end, one for each path.
    pub(crate) fn add_columns(&mut self, paths: &[Arc<str>]) -> Result<()> {
        let first = self.columns.len();
        let names = (first..).zip(paths).map(|(number, path)| ColumnName { number, path: Arc::clone(path) });
        self.add_named_columns(names)
    }

    /// Adds columns that their users know by other numbers.
    pub(crate) fn add_named_columns(&mut self, names: impl Iterator<Item = ColumnName>) -> Result<()> {
        for name in names {
            let length = *self.configured.get(&*name.path).unwrap_or(&self.default_length);
            self.columns.push(ColumnState::new(name, length, self.delta_encoded)?);
        }
        Ok(())
    }

    /// Checks one step's `cells` against the columns that are there; cells of columns to come are fine.
    pub(crate) fn check(&self, cells: &[(usize, &Tensor)]) -> Result<()> {
        self.check_episode(1)?;
        cells.iter().try_for_each(|(column, value)| self.check_values(*column, Values::One(value)))
    }

    /// [`check`](Self::check) for the values of several steps, whose number it gives; none for no columns.
    pub(crate) fn check_sequence(&self, cells: &[(usize, &Tensor)]) -> Result<Option<u32>> {
        let mut steps = None;
        for (column, rows) in cells {
            let fault = match (rows.shape().rows(), steps) {
                (None, _) => Some(AppendFault::NoSteps),
                (Some(got), Some(expected)) if got != expected => Some(AppendFault::Steps { got, expected }),
                (Some(got), _) => {
                    steps = Some(got);
                    None
                }
            };
            if let Some(fault) = fault {
                return Err(self.name(*column).error(fault));
            }
            self.check_values(*column, Values::Many(rows))?;
        }
        self.check_episode(steps.unwrap_or(0))?;
        Ok(steps)
    }

    fn check_episode(&self, steps: u32) -> Result<()> {
        if i32::try_from(self.episode_steps + u64::from(steps)).is_ok() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::FailedPrecondition,
            format!(
                "the episode has {} steps and would get {steps} more, which is more than a chunk can number; end it",
                self.episode_steps
            ),
        ))
    }

    fn check_values(&self, column: usize, values: Values<'_>) -> Result<()> {
        match self.columns.get(column) {
            Some(state) => state.check(values, self.history_steps),
            None => self.name(column).check_size(values),
        }
    }

    /// What errors call a column, which may be one to come.
    fn name(&self, column: usize) -> ColumnName {
        let known = self.columns.get(column).map(|state| state.name().clone());
        known.unwrap_or_else(|| ColumnName { number: column, path: Arc::from("(new)") })
    }

    /// Stores checked cells as one step, or as a part of one that stays open.
    pub(crate) fn append(&mut self, cells: &[(usize, &Tensor)], partial: bool) -> Result<Finished> {
        let finished = self.store(cells.iter().map(|(column, value)| (*column, Values::One(value))))?;
        self.step_is_open = partial;
        if !partial {
            self.episode_steps += 1;
            self.history_steps += 1;
        }
        Ok(finished)
    }

    /// Stores the checked values of `steps` steps, the first of which may be open.
    pub(crate) fn append_sequence(&mut self, cells: &[(usize, &Tensor)], steps: u32) -> Result<Finished> {
        if steps == 0 {
            return Ok(Finished::new());
        }
        let finished = self.store(cells.iter().map(|(column, rows)| (*column, Values::Many(rows))))?;
        self.step_is_open = false;
        self.episode_steps += u64::from(steps);
        self.history_steps += u64::from(steps);
        Ok(finished)
    }

    fn store<'a>(&mut self, cells: impl Iterator<Item = (usize, Values<'a>)>) -> Result<Finished> {
        let at = Moment {
            position: self.history_steps,
            episode_id: self.episode_id,
            step: i32::try_from(self.episode_steps).unwrap_or(i32::MAX),
        };
        let mut finished = Finished::new();
        for (index, values) in cells {
            if let Some(state) = self.columns.get_mut(index) {
                let owner = Owner { writer_id: self.writer_id, index, encoder: &self.encoder };
                let rng = &mut self.rng;
                state.append(values, at, owner, &mut || draw_key(rng), &mut finished)?;
            }
        }
        Ok(finished)
    }

    /// Cuts every open chunk.
    pub(crate) fn finish_all(&mut self) -> Result<Finished> {
        let mut finished = Finished::new();
        self.columns.iter_mut().try_for_each(|column| column.finish(&self.encoder, &mut finished))?;
        Ok(finished)
    }

    /// Cuts the open chunks that are wanted.
    pub(crate) fn finish_where(&mut self, is_wanted: impl Fn(&ChunkSlot) -> bool) -> Result<Finished> {
        let mut finished = Finished::new();
        self.columns
            .iter_mut()
            .try_for_each(|column| column.finish_if(&is_wanted, &self.encoder, &mut finished))?;
        Ok(finished)
    }

    /// Starts an episode; open chunks must be cut before.
    pub(crate) fn start_episode(&mut self, clear_history: bool) {
        if self.step_is_open {
            self.history_steps += 1;
            self.step_is_open = false;
        }
        if clear_history {
            self.columns.iter_mut().for_each(ColumnState::clear);
            self.history_steps = 0;
        }
        self.episode_steps = 0;
        self.episode_id = draw_key(&mut self.rng);
    }

    /// Sets the chunk length of the column at `path`, which may be one that no step had yet.
    pub(crate) fn configure(&mut self, path: &str, length: ChunkLength) -> Result<()> {
        if let Some(column) = self.columns.iter_mut().find(|column| column.path() == path) {
            column.configure(length)?;
        }
        self.configured.insert(path.to_owned(), length);
        Ok(())
    }

    /// Whether the chunk length of some column is tuned.
    pub(crate) fn is_tuned(&self) -> bool {
        self.columns.iter().any(ColumnState::is_tuned)
    }

    /// Takes note of what an item takes from a column.
    pub(crate) fn record_item(&mut self, column: usize, cells: u32, chunks: &[ChunkStatistic]) {
        if let Some(column) = self.columns.get_mut(column) {
            column.record_item(cells, chunks);
        }
    }
}

/// A key as dm-reverb's clients draw them: uniform over all 64-bit numbers but the largest.
fn draw_key(rng: &mut Xoshiro256PlusPlus) -> u64 {
    rng.random_range(0..u64::MAX)
}
