//! The trajectory writer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_connection::{Error, ErrorKind, Result};
use relive_fleet::Backend;
use relive_tensor::{Nest, Rows, Tensor};
use smallvec::SmallVec;

use super::known_tables::KnownTables;
use super::options::{TrajectoryWriterOptions, chunk_length};
use super::structure::Structure;
use super::tuning::Tuning;
use crate::chunks::ChunkSlot;
use crate::chunks::Encoder;
use crate::columns::Column;
use crate::columns::FinishedChunks;
use crate::columns::{Cell, Recorder};
use crate::history::History;
use crate::links::{Limits, Link, Unconfirmed};

/// Appends steps and creates items that refer to them.
///
/// A step is a nest of tensors. Each leaf is a column with a history; items refer to the newest steps of columns. Items
/// may overlap: their steps are encoded and sent once.
///
/// # Example
///
/// ```
/// use relive_client::{Client, Nest, Tensor, TrajectoryWriterOptions};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("replay")).build()?);
/// let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(3))?;
/// for reward in [0.0_f32, 0.5, 1.0] {
///     writer.append(&Nest::dict([("reward", Tensor::scalar(reward))]))?;
/// }
/// let rewards = writer.history().column("reward")?.slice(-3..)?;
/// let key = writer.create_item("replay", 1.0, rewards).await?;
/// writer.close().await?;
///
/// let sample = client.sample("replay", 1).await?.remove(0);
/// assert_eq!(sample.info().key, key);
/// assert_eq!(sample.columns()?[0].to_vec::<f32>()?, [0.0, 0.5, 1.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Delivery
///
/// The writer sends items in the background, in the order in which they were created. After losing the connection, it
/// resends the unconfirmed items in the same order and under the same keys, so no item is inserted twice.
/// [`flush`](Self::flush) waits until the server has confirmed them.
///
/// Items for tables in the same process are inserted directly: by the call that creates them or, if the last chunk is
/// not complete yet, by the call that completes that chunk.
///
/// # Ending a writer
///
/// Call [`close`](Self::close) when done. Dropping a writer loses its unconfirmed items and logs a warning.
///
/// # Errors
///
/// An unknown table, a refused item, a closed table and a step that cannot be encoded are permanent errors: every later
/// call fails with the same error. A refused *step* is not: [`append`](Self::append) then stores nothing, and the
/// writer stays usable.
pub struct TrajectoryWriter {
    pub(crate) backend: Backend,
    pub(crate) recorder: Recorder,
    structure: Structure,
    pub(crate) tuning: Tuning,
    pub(crate) link: Link,
    pub(crate) tables: KnownTables,
    closed: bool,
}

impl TrajectoryWriter {
    /// Creates a writer for the tables of `backend`, as `Client::trajectory_writer` does.
    ///
    /// # Errors
    /// `InvalidArgument` for contradictory options.
    pub fn new(backend: Backend, options: &TrajectoryWriterOptions) -> Result<TrajectoryWriter> {
        let length = options.default_length()?;
        let rng = Xoshiro256PlusPlus::try_from_rng(&mut SysRng).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format!("cannot get random numbers for keys from the system: {error}"),
            )
        })?;
        let limits = Limits { items: options.max_pending_items, bytes: options.max_pending_bytes };
        let link = Link::new(&backend, limits, options.codec);
        Ok(TrajectoryWriter {
            backend,
            recorder: Recorder::new(length, rng, Encoder::new(link.chunk_form(), options.codec))
                .delta_encoded(options.delta_encoded),
            structure: Structure::default(),
            tuning: Tuning::default(),
            link,
            tables: KnownTables::new(options),
            closed: false,
        })
    }

    /// Appends one step. A leaf that is missing or `None` leaves a gap in its column. A leaf that did not occur in any
    /// earlier step gets a new column.
    ///
    /// # Errors
    /// `InvalidArgument` if a leaf has a different type or shape than before, or has become a container. In that case,
    /// nothing is stored. If the value of a leaf is refused, the [`source`](std::error::Error::source) is an
    /// [`AppendMismatch`](crate::AppendMismatch). Also returns the writer's permanent error.
    pub fn append(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.append_nest(step, false)
    }

    /// Appends a part of a step. The step stays open: the next append adds to it.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append), and `InvalidArgument` if a leaf was already set in this step.
    pub fn append_partial(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.append_nest(step, true)
    }

    /// Appends many steps at once. Every leaf has the same leading dimension, the number of steps, which may be zero.
    /// This is equivalent to calling [`append`](Self::append) for each step, but much faster.
    ///
    /// ```
    /// # use relive_client::{Client, Nest, Tensor, TrajectoryWriterOptions, Windows};
    /// # let engine = relive_engine::Engine::builder().table(relive_table::TableConfig::new("replay")).build()?;
    /// # let client = Client::in_process(engine);
    /// let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(4).chunk_length(4))?;
    /// let rewards = Tensor::from_slice(&[0.0_f32, 0.5, 1.0, 1.5], [4])?;
    /// writer.append_sequence(&Nest::Leaf(rewards))?;
    /// assert_eq!(writer.history().column("")?.slice(-2..)?.to_tensor()?.to_vec::<f32>()?, [1.0, 1.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`append`](Self::append), and `InvalidArgument` for leaves without a leading dimension or with
    /// different leading dimensions. In that case, nothing is stored.
    pub fn append_sequence(&mut self, steps: &Nest<Tensor>) -> Result<()> {
        self.link.check()?;
        let (cells, grown) = self.structure.place(steps)?;
        let cells = cells.iter().map(|(column, values)| {
            let rows = Rows::steps(values).ok_or_else(|| self.recorder.no_steps(*column))?;
            Ok((*column, rows))
        });
        let cells: SmallVec<[Cell<'_>; 8]> = cells.collect::<Result<_>>()?;
        let Some(count) = self.recorder.check_sequence(&cells)? else { return Ok(()) };
        self.grow(grown)?;
        let stored = self.recorder.append_sequence(&cells, count);
        self.take_in(stored)
    }

    fn append_nest(&mut self, step: &Nest<Tensor>, partial: bool) -> Result<()> {
        self.link.check()?;
        let (cells, grown) = self.structure.place(step)?;
        let cells: SmallVec<[Cell<'_>; 8]> =
            cells.iter().map(|(column, value)| (*column, Rows::step(value))).collect();
        self.recorder.check(&cells)?;
        self.grow(grown)?;
        self.store(&cells, partial)
    }

    /// Adds the new columns of a step.
    fn grow(&mut self, grown: Option<Structure>) -> Result<()> {
        if let Some(grown) = grown {
            self.recorder
                .add_columns(grown.paths().get(self.structure.paths().len()..).unwrap_or_default())?;
            self.structure = grown;
        }
        Ok(())
    }

    /// Stores checked cells of known columns.
    fn store(&mut self, cells: &[(usize, Rows<'_>)], partial: bool) -> Result<()> {
        let stored = self.recorder.append(cells, partial);
        self.take_in(stored)
    }

    /// Passes on the chunks that a call has cut. A call that failed after its checks has stored part of a step or lost
    /// rows of a chunk, so its error is permanent.
    fn take_in(&mut self, finished: Result<FinishedChunks>) -> Result<()> {
        let finished = finished.map_err(|error| self.link.fail(error))?;
        self.link.chunks_were_cut(&finished)
    }

    /// Appends columns with the given paths, for callers that map leaves to columns themselves, and that use
    /// [`append_cells`](Self::append_cells) instead of [`append`](Self::append).
    ///
    /// # Errors
    /// `InvalidArgument` if the options allow no chunk length for a column.
    pub fn add_columns(&mut self, paths: &[Arc<str>]) -> Result<()> {
        self.recorder.add_columns(paths)
    }

    /// Checks whether [`append_cells`](Self::append_cells) would accept `cells`, which may belong to columns that do
    /// not exist yet. Stores nothing.
    ///
    /// # Errors
    /// The errors of [`append_cells`](Self::append_cells).
    pub fn check_cells(&mut self, cells: &[(usize, Rows<'_>)]) -> Result<()> {
        self.link.check()?;
        self.recorder.check(cells)
    }

    /// Checks whether [`append_sequence_cells`](Self::append_sequence_cells) would accept `cells`; see
    /// [`check_cells`](Self::check_cells).
    ///
    /// # Errors
    /// The errors of [`append_sequence_cells`](Self::append_sequence_cells).
    pub fn check_sequence_cells(&mut self, cells: &[(usize, Rows<'_>)]) -> Result<()> {
        self.link.check()?;
        self.recorder.check_sequence(cells).map(drop)
    }

    /// Like [`append`](Self::append), but with values by column number. `partial` leaves the step open.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub fn append_cells(&mut self, cells: &[(usize, Rows<'_>)], partial: bool) -> Result<()> {
        self.check_cells(cells)?;
        self.store(cells, partial)
    }

    /// Like [`append_sequence`](Self::append_sequence), but with values by column number.
    ///
    /// # Errors
    /// The errors of [`append_sequence`](Self::append_sequence).
    pub fn append_sequence_cells(&mut self, cells: &[(usize, Rows<'_>)]) -> Result<()> {
        self.link.check()?;
        let Some(count) = self.recorder.check_sequence(cells)? else { return Ok(()) };
        let stored = self.recorder.append_sequence(cells, count);
        self.take_in(stored)
    }

    /// Returns the error for a value without a leading dimension, which cannot be passed to
    /// [`append_sequence_cells`](Self::append_sequence_cells).
    pub fn without_steps(&self, column: usize) -> Error {
        self.recorder.no_steps(column)
    }

    /// Returns the structure of items of all columns, or `None` if the columns are not in the order of its leaves.
    pub(crate) fn structure_of_steps(&self) -> Option<Nest<()>> {
        self.structure.nest()
    }

    pub(crate) fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Returns the steps to which items can refer.
    pub fn history(&self) -> History<'_> {
        History::new(&self.recorder)
    }

    /// Returns the number of completed steps of this episode.
    pub fn episode_steps(&self) -> u64 {
        self.recorder.episode_steps()
    }

    /// Returns whether the last append left its step open.
    pub fn step_is_open(&self) -> bool {
        self.recorder.step_is_open()
    }

    /// Returns the number of unconfirmed items.
    pub fn pending_items(&self) -> usize {
        self.link.pending_items()
    }

    /// Returns a column of length 1 for each leaf of the newest step.
    pub(crate) fn newest_step(&self) -> Result<Vec<Column>> {
        (0..self.recorder.columns().len())
            .map(|column| self.history().column_at(column)?.slice(-1..))
            .collect()
    }

    /// Waits until all items are confirmed.
    ///
    /// # Errors
    /// `Timeout` after `timeout`, with the reason for the wait, or the writer's permanent error.
    pub async fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.flush_until(0, timeout).await
    }

    /// Waits until at most `items` items are unconfirmed. Cuts chunks only for items before the newest `items`.
    ///
    /// # Errors
    /// The errors of [`flush`](Self::flush).
    pub async fn flush_until(&mut self, items: usize, timeout: Duration) -> Result<()> {
        self.link.check()?;
        if self.link.pending_items() > items {
            self.finish_awaited(items)?;
        }
        self.link.wait_for_pending(items, timeout).await
    }

    /// Cuts the chunks for which items are waiting, except the chunks of the newest `spared` items.
    pub(crate) fn finish_awaited(&mut self, spared: usize) -> Result<()> {
        let finished = if spared == 0 {
            self.recorder.finish_where(ChunkSlot::has_pending_items)
        } else {
            let awaited = self.link.awaited_chunks(spared);
            self.recorder.finish_where(|slot| awaited.iter().any(|chunk| chunk.key() == slot.key()))
        };
        self.take_in(finished)
    }

    /// Flushes and begins a new episode. With `clear_history`, items of the new episode cannot refer to steps of the
    /// old one.
    ///
    /// # Errors
    /// The errors of [`flush`](Self::flush). The episode then continues, and the call can be repeated.
    pub async fn end_episode(&mut self, clear_history: bool, timeout: Duration) -> Result<()> {
        self.link.check()?;
        let finished = self.recorder.finish_all();
        self.take_in(finished)?;
        self.link.wait_for_pending(0, timeout).await?;
        self.recorder.start_episode(clear_history);
        Ok(())
    }

    /// Forgets all columns, so that the next step may have different leaves, types and shapes. The episode continues.
    /// Existing items keep their steps; their chunks are cut.
    ///
    /// # Errors
    /// `FailedPrecondition` while a step is open, or the writer's permanent error.
    pub fn forget_columns(&mut self) -> Result<()> {
        self.link.check()?;
        if self.step_is_open() {
            let text = "the columns cannot be forgotten while a step is open; complete it first";
            return Err(Error::new(ErrorKind::FailedPrecondition, text));
        }
        let finished = self.recorder.finish_all();
        self.take_in(finished)?;
        self.recorder.forget_columns();
        self.tables.forget_columns();
        (self.structure, self.tuning) = (Structure::default(), Tuning::default());
        Ok(())
    }

    /// Sets how many steps the column at `path` keeps, and how many steps a chunk holds. If the latter is `None`, the
    /// writer tunes it. The column may not exist yet.
    ///
    /// # Errors
    /// `InvalidArgument` unless `1 <= chunk_steps <= num_keep_alive_refs`; `FailedPrecondition` while the column has
    /// steps that are not in a chunk yet.
    pub fn configure(
        &mut self,
        path: &str,
        num_keep_alive_refs: u32,
        chunk_steps: Option<u32>,
    ) -> Result<()> {
        self.link.check()?;
        self.recorder.configure(path, chunk_length(chunk_steps, num_keep_alive_refs)?)
    }

    /// Flushes and closes the writer, within the client's timeout. Every later call except this one fails.
    ///
    /// # Errors
    /// The errors of [`flush`](Self::flush). The writer is then not closed, and the call can be repeated.
    pub async fn close(&mut self) -> Result<()> {
        self.close_with_timeout(self.backend.timeout()).await
    }

    /// Like [`close`](Self::close), but with its own timeout.
    ///
    /// # Errors
    /// The errors of [`close`](Self::close).
    pub async fn close_with_timeout(&mut self, timeout: Duration) -> Result<()> {
        if !self.closed {
            self.flush(timeout).await?;
            self.closed = true;
            self.link.close();
        }
        Ok(())
    }

    /// Closes the writer without waiting. Unconfirmed items are lost, and a warning is logged. Inserts that are already
    /// waiting in a table are still carried out. Every later call fails.
    pub fn close_now(&mut self) {
        if !self.closed
            && self.link.pending_items() > 0
            && let Some(lost) = self.loss()
        {
            tracing::warn!(target: crate::links::LOG, "{lost}");
        }
        self.discard();
    }

    /// Like [`close_now`](Self::close_now), but without a warning, for callers that no longer need unconfirmed items,
    /// such as a caller that also ends the tables.
    pub fn discard(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        match self.link.pending_items() {
            0 => self.link.close(),
            _ => self.link.abandon(),
        }
    }

    /// Returns the loss that [closing the writer now](Self::close_now) would cause, as an error with the number of
    /// unconfirmed items of each table and the reason, or `None` if all items have been confirmed.
    pub fn loss(&mut self) -> Option<Error> {
        let Unconfirmed { items, tables, why, is_away, has_failed } = self.link.unconfirmed()?;
        let kind = if is_away { ErrorKind::Unavailable } else { ErrorKind::FailedPrecondition };
        let address = self.backend.address();
        let advice = if has_failed { "" } else { "; flush it first" };
        let text = format!(
            "close: a writer for {address} ended with {items} items not confirmed ({tables}), which may be lost: {why}{advice}"
        );
        Some(Error::new(kind, text))
    }

    /// Returns whether the writer has been closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

impl Drop for TrajectoryWriter {
    fn drop(&mut self) {
        self.close_now();
    }
}

impl fmt::Debug for TrajectoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrajectoryWriter")
            .field("backend", &self.backend)
            .field("episode_steps", &self.episode_steps())
            .field("pending_items", &self.pending_items())
            .finish_non_exhaustive()
    }
}
