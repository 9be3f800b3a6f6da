//! Columns, steps and episodes of one writer: everything that needs no server.

use std::collections::HashMap;
use std::sync::Arc;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_tensor::{ChunkLength, ChunkStatistic, Tensor};

use super::column_state::{ColumnState, Moment, check_size};
use super::slot::ChunkSlot;
use crate::{Error, ErrorKind, Result};

/// Chunks that a call finished, so that their bytes can be counted.
pub(crate) type Finished = Vec<Arc<ChunkSlot>>;

#[derive(Debug)]
pub(crate) struct Recorder {
    writer_id: u64,
    rng: Xoshiro256PlusPlus,
    columns: Vec<ColumnState>,
    default_length: ChunkLength,
    configured: HashMap<String, ChunkLength>,
    episode_id: u64,
    /// Completed steps of the episode.
    episode_steps: u64,
    /// Completed steps since the history was last cleared.
    history_steps: u64,
    step_is_open: bool,
}

impl Recorder {
    pub(crate) fn new(default_length: ChunkLength, mut rng: Xoshiro256PlusPlus) -> Recorder {
        Recorder {
            writer_id: rng.random(),
            episode_id: draw_key(&mut rng),
            rng,
            columns: Vec::new(),
            default_length,
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

    /// A fresh key for an item.
    pub(crate) fn draw_key(&mut self) -> u64 {
        draw_key(&mut self.rng)
    }

    /// Adds columns at the end, one for each path.
    pub(crate) fn add_columns(&mut self, paths: &[Arc<str>]) -> Result<()> {
        for path in paths {
            let length = *self.configured.get(&**path).unwrap_or(&self.default_length);
            self.columns.push(ColumnState::new(Arc::clone(path), length)?);
        }
        Ok(())
    }

    /// Checks `cells` against the columns that are there; cells of columns to come are fine.
    pub(crate) fn check(&self, cells: &[(usize, &Tensor)]) -> Result<()> {
        if i32::try_from(self.episode_steps).is_err() {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!("the episode has {} steps, more than a chunk can number; end it", self.episode_steps),
            ));
        }
        for (column, value) in cells {
            match self.columns.get(*column) {
                Some(column) => column.check(value, self.history_steps)?,
                None => check_size("(new)", value)?,
            }
        }
        Ok(())
    }

    /// Stores checked cells as one step, or as a part of one that stays open.
    pub(crate) fn append(&mut self, cells: &[(usize, &Tensor)], partial: bool) -> Result<Finished> {
        let at = Moment {
            position: self.history_steps,
            episode_id: self.episode_id,
            step: i32::try_from(self.episode_steps).unwrap_or(i32::MAX),
        };
        let mut finished = Finished::new();
        for (column, value) in cells {
            if let Some(state) = self.columns.get_mut(*column) {
                let rng = &mut self.rng;
                finished.extend(state.append(value, at, self.writer_id, *column, &mut || draw_key(rng))?);
            }
        }
        self.step_is_open = partial;
        if !partial {
            self.episode_steps += 1;
            self.history_steps += 1;
        }
        Ok(finished)
    }

    /// Cuts every open chunk.
    pub(crate) fn finish_all(&mut self) -> Result<Finished> {
        self.columns.iter_mut().filter_map(|column| column.finish().transpose()).collect()
    }

    /// Cuts the open chunks that items refer to.
    pub(crate) fn finish_pending(&mut self) -> Result<Finished> {
        self.columns.iter_mut().filter_map(|column| column.finish_if_pending().transpose()).collect()
    }

    /// Starts an episode; open chunks must be cut before.
    pub(crate) fn start_episode(&mut self, clear_history: bool) {
        if self.step_is_open {
            self.history_steps += 1;
            self.step_is_open = false;
        }
        if clear_history {
            let end = self.history_steps;
            self.columns.iter_mut().for_each(|column| column.forget_before(end));
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
