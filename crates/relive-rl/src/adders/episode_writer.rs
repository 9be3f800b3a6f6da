//! Writes rows, and creates items from the newest rows.

use relive_client::blocking::{Client, TrajectoryWriter};
use relive_client::{Column, Nest, Tensor, TrajectoryWriterOptions};
use relive_env::{State, TimeStep, View};

use super::priority::Priority;
use super::room::{CONFIRMATION_TIMEOUT, until_there_is_room};
use super::step::Steps;
use crate::{Result, RlError};

/// Writes the rows of episodes. During an episode the newest row is open: it has no action yet.
pub(super) struct EpisodeWriter {
    writer: TrajectoryWriter,
    steps: Steps,
    /// The number of complete rows that the history keeps.
    kept: usize,
    /// The number of complete rows since the history was cleared.
    rows: usize,
    is_open: bool,
}

impl EpisodeWriter {
    /// Creates a writer that keeps the newest `kept` complete rows.
    pub(super) fn new(
        client: &Client,
        steps: Steps,
        name: &'static str,
        kept: usize,
    ) -> Result<EpisodeWriter> {
        let with_open = u32::try_from(kept).ok().and_then(|kept| kept.checked_add(1));
        let with_open = with_open.filter(|_| kept > 0);
        let with_open = with_open.ok_or_else(|| RlError::setting(name, kept, "from 1 to 2**32 - 2"))?;
        let writer = client.trajectory_writer(TrajectoryWriterOptions::new(with_open))?;
        Ok(EpisodeWriter { writer, steps, kept, rows: 0, is_open: false })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn zeros(&self) -> &Nest<Tensor> {
        self.steps.zeros()
    }

    /// Opens the first row of an episode.
    pub(super) fn begin(&mut self, observation: View<'_>) -> Result<()> {
        self.writer.append_partial(&self.steps.begun(observation, true)?)?;
        self.is_open = true;
        Ok(())
    }

    /// Completes the open row, and opens the next one.
    pub(super) fn add(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<()> {
        if !self.is_open {
            return Err(RlError::Order { call: "add", needs: "a preceding call of add_first" });
        }
        let (rest, next) = (self.steps.taken(action, step, extras)?, self.steps.begun(observation, false)?);
        self.writer.append(&rest)?;
        self.rows += 1;
        self.writer.append_partial(&next)?;
        Ok(())
    }

    /// Completes the row of an episode's last observation.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.writer.append(&self.steps.untaken())?;
        self.rows += 1;
        self.is_open = false;
        Ok(())
    }

    /// Appends a complete row.
    pub(super) fn append(&mut self, row: &Nest<Tensor>) -> Result<()> {
        self.writer.append(row)?;
        self.rows += 1;
        Ok(())
    }

    /// Creates an item in each table, from the newest `length` complete rows.
    pub(super) fn create_item(&mut self, length: usize, tables: &mut [(String, Priority)]) -> Result<()> {
        let history = self.writer.history();
        let end = i64::try_from(usize::from(self.is_open)).unwrap_or(0);
        let start = i64::try_from(length).unwrap_or(i64::MAX) + end;
        let column = |path: &str| -> Result<Column> {
            let column = history.column(path)?;
            Ok(if end == 0 { column.slice(-start..)? } else { column.slice(-start..-end)? })
        };
        let mut paths = Vec::new();
        for (path, _) in self.steps.zeros().flatten_with_paths() {
            paths.push(column(&path.to_string())?);
        }
        let trajectory = self.steps.zeros().unflatten(paths);
        let trajectory = trajectory.map_err(|error| RlError::setting("a row", error, "as its spec says"))?;
        for (table, priority) in tables {
            let priority = priority.of(&trajectory)?;
            until_there_is_room(|| self.writer.create_item(table, priority, trajectory.clone()))?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        until_there_is_room(|| self.writer.flush(CONFIRMATION_TIMEOUT))
    }

    pub(super) fn discard(&mut self) {
        self.writer.discard();
    }

    /// Saves or restores the rows of the history, from which future items are created.
    pub(super) fn visit(&mut self, state: &mut State<'_>, cells: &mut Vec<Vec<u8>>) {
        let mut rows = u64::try_from(self.rows).unwrap_or(u64::MAX);
        state.field(&mut rows);
        state.field(&mut self.is_open);
        self.rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let open = if self.is_open { self.steps.begun_leaves() } else { 0 };
        cells.resize(self.rows.min(self.kept) * self.steps.zeros().len() + open, Vec::new());
        cells.iter_mut().for_each(|cell| state.bytes(cell));
    }

    /// Returns the bytes of all values in the history, row by row.
    pub(super) fn cells(&self) -> Result<Vec<Vec<u8>>> {
        let history = self.writer.history();
        let paths: Vec<_> =
            self.steps.zeros().flatten_with_paths().into_iter().map(|(path, _)| path.to_string()).collect();
        let mut cells = Vec::new();
        let mut create_column = |path: &str, at: i64| -> Result<()> {
            let value = history.column(path)?.step(at)?.to_tensor()?;
            cells.push(value.bytes().map_or_else(Vec::new, |bytes| bytes.to_vec()));
            Ok(())
        };
        let open = i64::from(self.is_open);
        for behind in (1..=i64::try_from(self.rows.min(self.kept)).unwrap_or(i64::MAX)).rev() {
            paths.iter().try_for_each(|path| create_column(path, -behind - open))?;
        }
        if self.is_open {
            paths.iter().filter(|path| Steps::is_begun(path)).try_for_each(|path| create_column(path, -1))?;
        }
        Ok(cells)
    }

    /// Appends the rows that have the values `cells`.
    pub(super) fn restore(&mut self, cells: Vec<Vec<u8>>) -> Result<()> {
        let mut cells = cells.into_iter();
        for _ in 0..self.rows.min(self.kept) {
            self.writer.append(&self.steps.restored(&mut cells, |_| true)?)?;
        }
        if self.is_open {
            self.writer.append_partial(&self.steps.restored(&mut cells, Steps::is_begun)?)?;
        }
        Ok(())
    }

    /// Ends the episode, waits until its items are confirmed, and drops its rows.
    pub(super) fn end(&mut self) -> Result<()> {
        if !self.writer.history().is_empty() {
            until_there_is_room(|| self.writer.end_episode(true, CONFIRMATION_TIMEOUT))?;
        }
        (self.rows, self.is_open) = (0, false);
        Ok(())
    }
}
