//! Creates items from windows of the history.

use std::ops::Range;
use std::sync::Arc;

use relive_connection::{Error, Result};
use relive_tensor::{DType, Shape};
use smallvec::SmallVec;

use super::create::{check_count, nan, tuned_stride};
use super::tuning::{GroupUse, Uses};
use super::writer::TrajectoryWriter;
use crate::chunks::ChunkRef;
use crate::columns::{IndexError, Recorder, item_shape, resolve};
use crate::history::column_error;
use crate::items::{ItemDraft, PendingItem};

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
        check_count("create_window_items", "windows", priorities, windows.ends.len())?;
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
        let mut draft = ItemDraft::new(self.recorder.new_key(), Arc::clone(table), priority, columns.len());
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
