//! Creates items.

use std::ops::Range;
use std::sync::Arc;

use relive_connection::{Error, Result};
use relive_tensor::{DType, Shape};
use smallvec::SmallVec;

use super::tuning::{GroupUse, Uses};
use super::writer::TrajectoryWriter;
use crate::chunks::ChunkRef;
use crate::columns::{Column, IndexError, Recorder, item_shape, resolve};
use crate::history::column_error;
use crate::items::{ItemDraft, PendingItem, TrajectoryColumns};

/// The largest number of items that one call reports to the tuner of chunk lengths; they are spread evenly over the
/// call's items. The tuner uses only the newest ten.
const TUNED_ITEMS_PER_CALL: usize = 16;

/// The numbers of an item's columns. Most steps have few columns.
type ColumnNumbers = SmallVec<[usize; 8]>;

/// Items that are windows of the history. Each window has an end position, and all have the same number of steps of the
/// same columns.
///
/// ```
/// use relive_client::{Client, Nest, Tensor, TrajectoryWriterOptions, Windows};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("replay", 10)).build()?);
/// let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(3))?;
/// writer.append_sequence(&Nest::Leaf(Tensor::from_slice(&[0.0_f32, 0.5, 1.0], [3])?))?;
///
/// // The step before the newest, and the newest: one item each, without a leading dimension.
/// writer.create_window_items("replay", &[1.0, 1.0], Windows::steps(&[-2, -1])).await?;
/// // The newest three steps of column 0 as one item.
/// writer.create_window_items("replay", &[1.0], Windows::of(3, &[-1]).columns(&[0])).await?;
/// writer.close().await?;
///
/// let items = client.sample("replay", 3).await?;
/// assert_eq!(items[1].columns()?, [Tensor::scalar(1.0_f32)]);
/// assert_eq!(items[2].columns()?[0].to_vec::<f32>()?, [0.0, 0.5, 1.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Windows<'a> {
    ends: &'a [i64],
    length: usize,
    squeeze: bool,
    columns: Option<&'a [usize]>,
}

impl<'a> Windows<'a> {
    /// One item for each element of `ends`, which is the position of the item's last step in the history; -1 is the
    /// newest step. An item has `length` steps, at least 1, along a leading dimension.
    pub fn of(length: usize, ends: &'a [i64]) -> Windows<'a> {
        Windows { ends, length, squeeze: false, columns: None }
    }

    /// One item for each element of `steps`: a single step without a leading dimension.
    pub fn steps(steps: &'a [i64]) -> Windows<'a> {
        Windows { ends: steps, length: 1, squeeze: true, columns: None }
    }

    /// Returns the number of rows of each column of an item, or `None` for single steps.
    fn rows(&self) -> Result<Option<u32>> {
        let rows = u32::try_from(self.length).ok().filter(|rows| *rows > 0);
        let rows = rows.ok_or_else(|| {
            Error::invalid(format!("a window must have 1 to {} steps, got {}", u32::MAX, self.length))
        })?;
        Ok((!self.squeeze).then_some(rows))
    }

    /// Uses the columns with the given numbers, in this order, instead of all columns.
    #[must_use]
    pub fn columns(mut self, columns: &'a [usize]) -> Windows<'a> {
        self.columns = Some(columns);
        self
    }
}

impl TrajectoryWriter {
    /// Creates an item for `table` from `trajectory` and returns its key. `trajectory` is a column of this writer's
    /// history, or an array, vector or nest of such columns. Waits while the limit on unconfirmed items is reached.
    ///
    /// # Errors
    /// * `InvalidArgument` for no columns, columns from another writer, or a NaN priority. If items are validated, also
    ///   for columns that the table's signature does not allow, or [names](crate::TrajectoryWriterOptions::check_names)
    ///   that differ from the names of the table's signature or first writer.
    /// * `NotFound` for an unknown table.
    /// * `Timeout` if there is no room within the client's timeout. In that case, the item was not created.
    /// * The writer's permanent error, if it has one.
    pub async fn create_item(
        &mut self,
        table: &str,
        priority: f64,
        trajectory: impl Into<TrajectoryColumns>,
    ) -> Result<u64> {
        let trajectory = trajectory.into();
        loop {
            if let Some(key) = self.try_create_item(table, priority, &trajectory)? {
                return Ok(key);
            }
            self.wait_until_ready(table).await?;
        }
    }

    /// Like [`create_item`](Self::create_item), but does not wait: returns `None` and does nothing if there is no room,
    /// or if the table's signature has to be requested. [`wait_until_ready`](Self::wait_until_ready) waits for room and for the
    /// signature.
    ///
    /// # Errors
    /// The errors of [`create_item`](Self::create_item), except `Timeout`.
    pub fn try_create_item(
        &mut self,
        table: &str,
        priority: f64,
        trajectory: &TrajectoryColumns,
    ) -> Result<Option<u64>> {
        self.link.check()?;
        let columns = trajectory.columns();
        self.check_item(priority, columns)?;
        let Some(known) = self.tables.get(table, &self.backend)? else { return Ok(None) };
        known.check(columns)?;
        let table = Arc::clone(&known.name);
        if !self.names_fit(&table, trajectory)? || !self.has_room()? {
            return Ok(None);
        }
        self.push_item(table, priority, columns).map(Some)
    }

    /// Returns whether an item has no names, or has names that are known to match the table's.
    fn names_fit(&mut self, table: &str, trajectory: &TrajectoryColumns) -> Result<bool> {
        trajectory.nest().map_or(Ok(true), |nest| self.agree_on_columns(table, nest))
    }

    /// Creates an item, whether or not there is room for it.
    pub(crate) fn push_item(&mut self, table: Arc<str>, priority: f64, columns: &[Column]) -> Result<u64> {
        let key = self.recorder.new_key();
        let item = PendingItem::new(key, table, priority, columns);
        self.tuning.record(columns, &mut self.recorder);
        self.link.push(std::iter::once(item))?;
        self.note_items()?;
        Ok(key)
    }

    /// Cuts chunks where items end.
    fn note_items(&mut self) -> Result<()> {
        if !self.recorder.is_tuned() {
            return Ok(());
        }
        let finished = self.recorder.note_items()?;
        self.link.chunks_were_cut(&finished)
    }

    /// Creates an item for `table` from each of `trajectories`, with the priority at the same position, and returns
    /// their keys. Checks all of them before it creates the first; a table that refuses one later, such as for a negative
    /// priority, may already have the ones before it. Together, they count as one item toward the writer's limits.
    ///
    /// # Errors
    /// The errors of [`create_item`](Self::create_item), and `InvalidArgument` if the numbers of priorities and
    /// trajectories differ.
    pub async fn create_items(
        &mut self,
        table: &str,
        priorities: &[f64],
        trajectories: &[TrajectoryColumns],
    ) -> Result<Vec<u64>> {
        loop {
            if let Some(keys) = self.try_create_items(table, priorities, trajectories)? {
                return Ok(keys);
            }
            self.wait_until_ready(table).await?;
        }
    }

    /// Like [`create_items`](Self::create_items), but does not wait; see [`try_create_item`](Self::try_create_item).
    ///
    /// # Errors
    /// The errors of [`create_items`](Self::create_items), except `Timeout`.
    pub fn try_create_items(
        &mut self,
        table: &str,
        priorities: &[f64],
        trajectories: &[TrajectoryColumns],
    ) -> Result<Option<Vec<u64>>> {
        self.link.check()?;
        check_count("trajectories", priorities, trajectories.len())?;
        for (priority, trajectory) in priorities.iter().zip(trajectories) {
            self.check_item(*priority, trajectory.columns())?;
        }
        let Some(known) = self.tables.get(table, &self.backend)? else { return Ok(None) };
        trajectories.iter().try_for_each(|trajectory| known.check(trajectory.columns()))?;
        let table = Arc::clone(&known.name);
        for trajectory in trajectories {
            if !self.names_fit(&table, trajectory)? {
                return Ok(None);
            }
        }
        if !self.has_room()? {
            return Ok(None);
        }
        let stride = tuned_stride(trajectories.len());
        for trajectory in trajectories.iter().rev().step_by(stride) {
            self.tuning.record(trajectory.columns(), &mut self.recorder);
        }
        let keys: Vec<u64> = trajectories.iter().map(|_| self.recorder.new_key()).collect();
        let items = keys.iter().zip(priorities).zip(trajectories);
        let items = items.map(|((&key, &priority), trajectory)| {
            PendingItem::new(key, Arc::clone(&table), priority, trajectory.columns())
        });
        // The items are created before the link is locked.
        let items: Vec<PendingItem> = items.collect();
        self.link.push(items.into_iter())?;
        self.note_items()?;
        Ok(Some(keys))
    }

    /// Creates an item for `table` from each window of the history, with the priority at the same position, and returns
    /// their keys. This is the fastest way to create many items. Checks all windows first, like
    /// [`create_items`](Self::create_items).
    ///
    /// ```
    /// # use relive_client::{Client, Nest, Tensor, TrajectoryWriterOptions, Windows};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = relive_engine::Engine::builder().table(relive_table::TableConfig::new("replay")).build()?;
    /// # let client = Client::in_process(engine);
    /// let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(4))?;
    /// writer.append_sequence(&Nest::Leaf(Tensor::from_slice(&[0.0_f32, 0.5, 1.0, 1.5], [4])?))?;
    /// let keys = writer.create_window_items("replay", &[1.0, 1.0, 1.0], Windows::of(2, &[-3, -2, -1])).await?;
    /// assert_eq!(keys.len(), 3);
    /// writer.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`create_items`](Self::create_items), and `InvalidArgument` for windows without steps, or with
    /// steps that are outside the history, are no longer kept, or have no value of one of the columns.
    pub async fn create_window_items(
        &mut self,
        table: &str,
        priorities: &[f64],
        windows: Windows<'_>,
    ) -> Result<Vec<u64>> {
        loop {
            if let Some(keys) = self.try_create_window_items(table, priorities, windows)? {
                return Ok(keys);
            }
            self.wait_until_ready(table).await?;
        }
    }

    /// Like [`create_window_items`](Self::create_window_items), but does not wait; see
    /// [`try_create_item`](Self::try_create_item).
    ///
    /// # Errors
    /// The errors of [`create_window_items`](Self::create_window_items), except `Timeout`.
    pub fn try_create_window_items(
        &mut self,
        table: &str,
        priorities: &[f64],
        windows: Windows<'_>,
    ) -> Result<Option<Vec<u64>>> {
        self.link.check()?;
        check_count("windows", priorities, windows.ends.len())?;
        if priorities.iter().any(|priority| priority.is_nan()) {
            return Err(nan());
        }
        let columns = self.window_columns(windows)?;
        let columns_of = layout(&self.recorder, windows.rows()?, &columns)?;
        let Some(known) = self.tables.get(table, &self.backend)? else { return Ok(None) };
        let steps = || Ok(layout(&self.recorder, None, &columns)?.into_iter());
        known.check_layout(columns_of.into_iter(), steps)?;
        let table = Arc::clone(&known.name);
        if windows.columns.is_none() && !self.agree_on_steps(&table, Self::structure_of_steps)? {
            return Ok(None);
        }
        if !self.has_room()? {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(priorities.len());
        for (&end, &priority) in windows.ends.iter().zip(priorities) {
            items.push(self.window_item(&table, priority, windows, end, &columns)?);
        }
        self.tune_windows(windows, &columns)?;
        let keys = items.iter().map(|item| item.key).collect();
        self.link.push(items.into_iter())?;
        self.note_items()?;
        Ok(Some(keys))
    }

    /// Waits until there is room for items and the signature and column names of `table` are known, for at most the
    /// client's timeout.
    ///
    /// # Errors
    /// `Timeout`, with the reason for the wait; `NotFound` for an unknown table; or the writer's permanent error.
    pub async fn wait_until_ready(&mut self, table: &str) -> Result<()> {
        let timeout = self.backend.timeout();
        self.tables.learn(table, &self.backend, timeout).await?;
        self.wait_for_room().await
    }

    /// Returns whether items may be created now without waiting.
    pub(crate) fn has_room(&mut self) -> Result<bool> {
        self.link.has_room(|| self.recorder.unheld_bytes())
    }

    /// Waits until there is room for items.
    pub(crate) async fn wait_for_room(&mut self) -> Result<()> {
        if !self.has_room()? {
            // Otherwise, items that are waiting for a chunk to be cut would wait until this call ends.
            self.finish_awaited(0)?;
            let (recorder, timeout) = (&self.recorder, self.backend.timeout());
            self.link.wait_for_room(timeout, || recorder.unheld_bytes()).await?;
        }
        Ok(())
    }

    fn check_item(&self, priority: f64, columns: &[Column]) -> Result<()> {
        if columns.is_empty() {
            return Err(Error::invalid("create_item: the trajectory has no columns"));
        }
        if priority.is_nan() {
            return Err(nan());
        }
        let mine = self.recorder.writer_id();
        match columns.iter().find(|column| column.writer_id() != mine) {
            Some(foreign) => Err(Error::invalid(format!(
                "create_item: column {:?} belongs to the history of another writer",
                foreign.path()
            ))),
            None => Ok(()),
        }
    }

    /// Returns the numbers of the columns of windows.
    fn window_columns(&self, windows: Windows<'_>) -> Result<ColumnNumbers> {
        let known = self.recorder.columns().len();
        let columns: ColumnNumbers = match windows.columns {
            Some(columns) => columns.iter().copied().collect(),
            None => (0..known).collect(),
        };
        if columns.is_empty() {
            return Err(Error::invalid("create_item: the trajectory has no columns"));
        }
        match columns.iter().find(|column| **column >= known) {
            Some(column) => Err(Error::invalid(format!(
                "there is no column number {column}; the number of columns is {known}"
            ))),
            None => Ok(columns),
        }
    }

    fn window_item(
        &mut self,
        table: &Arc<str>,
        priority: f64,
        windows: Windows<'_>,
        end: i64,
        columns: &[usize],
    ) -> Result<PendingItem> {
        let positions = self.window_positions(windows.length, end)?;
        let mut draft = ItemDraft::new(self.recorder.new_key(), Arc::clone(table), priority);
        for &column in columns {
            self.visit(column, positions.clone(), |chunk, offset, rows| {
                draft.add_run(chunk, offset, rows);
            })?;
            draft.end_column(windows.squeeze);
        }
        Ok(draft.finish())
    }

    /// Returns the positions in the history of the window that ends at `end`.
    fn window_positions(&self, length: usize, end: i64) -> Result<Range<u64>> {
        let len = self.recorder.history_len();
        let outside = |index| Error::invalid(IndexError::OutOfRange { index, len }.to_string());
        let last = resolve(end, len).map_err(|_| outside(end))?;
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let first = (last + 1).checked_sub(length);
        let first = first.ok_or_else(|| {
            Error::invalid(format!(
                "a window of {length} steps that ends at step {last} starts before the history"
            ))
        })?;
        Ok(first..last + 1)
    }

    fn visit(
        &self,
        column: usize,
        positions: Range<u64>,
        take: impl FnMut(&ChunkRef, u32, u32),
    ) -> Result<()> {
        let Some(state) = self.recorder.columns().get(column) else { return Ok(()) };
        state.cells().visit(positions, take).map_err(|error| column_error(state.path(), error))
    }

    /// Reports some of the windows to the tuner of chunk lengths.
    fn tune_windows(&mut self, windows: Windows<'_>, columns: &[usize]) -> Result<()> {
        if !self.recorder.is_tuned() {
            return Ok(());
        }
        for &end in windows.ends.iter().rev().step_by(tuned_stride(windows.ends.len())) {
            let positions = self.window_positions(windows.length, end)?;
            let mut uses = Uses::default();
            for &column in columns {
                let Some(group) = self.recorder.group_of(column) else { continue };
                let mut used = GroupUse::of(group, windows.length);
                self.visit(column, positions.clone(), |chunk, _, _| used.add_chunk(chunk.slot()))?;
                uses.add(used);
            }
            self.tuning.add(uses);
        }
        self.tuning.settle(&mut self.recorder);
        Ok(())
    }
}

/// Returns the types and shapes of columns with `rows` steps each, or of single steps.
fn layout(
    recorder: &Recorder,
    rows: Option<u32>,
    columns: &[usize],
) -> Result<SmallVec<[(DType, Shape); 8]>> {
    let layout = columns.iter().filter_map(|column| recorder.columns().get(*column)).map(|state| {
        let missing = || column_error(state.path(), IndexError::Missing { step: 0 });
        let spec = state.spec().ok_or_else(missing)?;
        Ok((spec.dtype, item_shape(rows, &spec.shape)))
    });
    layout.collect()
}

fn tuned_stride(items: usize) -> usize {
    items.div_ceil(TUNED_ITEMS_PER_CALL).max(1)
}

fn check_count(what: &str, priorities: &[f64], count: usize) -> Result<()> {
    if priorities.len() == count {
        return Ok(());
    }
    Err(Error::invalid(format!("create_items: {} priorities for {count} {what}", priorities.len())))
}

fn nan() -> Error {
    Error::invalid("create_item: the priority is NaN")
}
