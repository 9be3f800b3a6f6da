//! A writer that creates items from patterns.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Error, ErrorKind, Result};
use relive_fleet::Backend;
use relive_tensor::{DType, Nest, Rows, Shape, Tensor};
use smallvec::SmallVec;

use super::condition::ConditionValues;
use super::config::{PriorityFn, StructuredConfig, td_error, validate_all};
use super::flat_step::{FlatStep, StepShape};
use super::node::PatternNode;
use super::options::StructuredWriterOptions;
use super::validation::Validation;
use super::values::RecentValues;
use crate::columns::ColumnName;
use crate::columns::{AppendFault, AppendMismatch};
use crate::columns::{Column, Runs, item_shape, push_run};
use crate::trajectory::TrajectoryWriter;
use crate::trajectory::TrajectoryWriterOptions;

/// Appends steps and creates an item whenever the conditions of one of its patterns hold.
///
/// A [`StructuredConfig`] is a pattern: a table, the columns and steps of an item, its conditions and its priority.
///
/// # Example
///
/// ```
/// use relive_client::{Client, Nest, SourceColumn, StructuredConfig, Tensor};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("replay", 10)).build()?);
/// let last_two = Nest::Leaf(SourceColumn::at(0).slice(-2..)?);
/// let mut writer = client.structured_writer(vec![StructuredConfig::new("replay", last_two)])?;
/// for x in [1.0_f32, 2.0, 3.0] {
///     writer.append(&Nest::Leaf(Tensor::scalar(x))).await?;
/// }
/// writer.close().await?;
///
/// let items = client.sample("replay", 2).await?;
/// assert_eq!(items[0].columns()?[0].to_vec::<f32>()?, [1.0, 2.0]);
/// assert_eq!(items[1].columns()?[0].to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Steps
///
/// All steps have the structure of the first step: the same containers and keys, with `None` for missing leaves. The
/// writer does not store leaves to which no pattern refers.
///
/// # When patterns apply
///
/// The writer tries the patterns in order after every append, including partial ones, and again when the episode ends.
/// Each pattern creates at most one item per step, and none if a step to which it refers does not exist. A step that has
/// none of the leaves to which patterns refer applies no pattern, and does not count in
/// [`Condition::steps_since_applied`](crate::Condition::steps_since_applied).
///
/// # Errors
///
/// If a step does not match the first one, the call fails with `InvalidArgument` and stores nothing. The permanent
/// errors are the same as for a [`TrajectoryWriter`].
#[derive(Debug)]
pub struct StructuredWriter {
    writer: TrajectoryWriter,
    patterns: Vec<Pattern>,
    shape: Option<StepShape>,
    values: RecentValues,
    validation: Validation,
    /// The version of the tables with which the patterns were compared.
    tables_version: u64,
}

/// A configuration and its progress.
#[derive(Debug)]
struct Pattern {
    config: StructuredConfig,
    table: Arc<str>,
    steps_since_applied: i64,
    counted: Option<StepId>,
    applied: Option<StepId>,
    /// Whether the types and shapes of the pattern's columns match the table's signature.
    is_checked: bool,
    /// Whether the comparison of the pattern's names with the table's names has started.
    is_named: bool,
}

/// A step of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StepId {
    episode_id: u64,
    step: u64,
}

impl StructuredWriter {
    /// Creates a writer for the tables of `backend`, as `Client::structured_writer` does.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list or an invalid configuration.
    pub fn new(
        backend: Backend,
        configs: Vec<StructuredConfig>,
        options: &StructuredWriterOptions,
    ) -> Result<StructuredWriter> {
        let configs = validate_all(configs)?;
        let max_age = configs.iter().map(StructuredConfig::max_age).max().unwrap_or(1);
        let writer = TrajectoryWriterOptions { num_keep_alive_refs: max_age, ..options.writer };
        let values = RecentValues::new(&configs, options.validate_items);
        let new = |config: StructuredConfig| {
            let table = Arc::from(config.table());
            Pattern {
                config,
                table,
                steps_since_applied: 0,
                counted: None,
                applied: None,
                is_checked: false,
                is_named: false,
            }
        };
        Ok(StructuredWriter {
            tables_version: backend.tables_version(),
            writer: TrajectoryWriter::new(backend, &writer)?,
            patterns: configs.into_iter().map(new).collect(),
            shape: None,
            values,
            validation: Validation::new(options.validate_items, options.check_names),
        })
    }

    /// Appends one step and creates the items that are due. If the limit on unconfirmed items has been reached, waits
    /// first. The first call also waits for the signatures of the patterns' tables.
    ///
    /// # Errors
    /// `InvalidArgument` if the step does not match the first one, if a priority or a condition cannot be computed, or
    /// if the items of a pattern would not match their table's signature; `NotFound` for an unknown table; `Timeout` if
    /// there is no room for items within the client's timeout. After these errors, nothing has been stored, with two
    /// exceptions: if an item's priority is not finite, or if its names are not those of its table, only this item is
    /// not created. If a single value does not match, the [`source`](std::error::Error::source) is an
    /// [`AppendMismatch`]. Also returns the writer's permanent error.
    pub async fn append(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.wait_until_ready().await?;
        self.append_part(step, false)
    }

    /// Appends a part of a step. The step stays open: the next append adds to it.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append), and `FailedPrecondition` if a leaf was already set in this step.
    pub async fn append_partial(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.wait_until_ready().await?;
        self.append_part(step, true)
    }

    /// Like [`append`](Self::append), but does not wait: returns false and does nothing if there is no room for items.
    /// [`wait_until_ready`](Self::wait_until_ready) waits for room.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append), except `Timeout`.
    pub fn try_append(&mut self, step: &Nest<Tensor>) -> Result<bool> {
        self.try_append_part(step, false)
    }

    /// Like [`append_partial`](Self::append_partial), but does not wait; see [`try_append`](Self::try_append).
    ///
    /// # Errors
    /// The errors of [`append_partial`](Self::append_partial), except `Timeout`.
    pub fn try_append_partial(&mut self, step: &Nest<Tensor>) -> Result<bool> {
        self.try_append_part(step, true)
    }

    fn try_append_part(&mut self, step: &Nest<Tensor>, partial: bool) -> Result<bool> {
        self.renew_checks();
        let tables = self.patterns.iter().map(|pattern| &pattern.table);
        if !self.validation.knows(&self.writer, tables)? || !self.writer.has_room()? {
            return Ok(false);
        }
        self.append_part(step, partial).map(|()| true)
    }

    /// Waits until the signatures of the patterns' tables are known and there is room for items, for at most the client's
    /// timeout each.
    ///
    /// # Errors
    /// `Timeout`, with the reason for the wait; `NotFound` for an unknown table; or the writer's permanent error.
    pub async fn wait_until_ready(&mut self) -> Result<()> {
        self.renew_checks();
        let tables = self.patterns.iter().map(|pattern| &pattern.table);
        self.validation.learn(&self.writer, tables).await?;
        self.writer.wait_for_room().await
    }

    /// Lets the patterns be compared with their tables again, if a table may have been dropped and added again.
    fn renew_checks(&mut self) {
        let version = self.writer.tables_version();
        if std::mem::replace(&mut self.tables_version, version) != version {
            self.validation.forget_signatures();
            for pattern in &mut self.patterns {
                (pattern.is_checked, pattern.is_named) = (false, false);
            }
        }
    }

    /// Stores a step or a partial step, and creates the items that are due. Together, these items count as one item
    /// toward the writer's limits.
    fn append_part(&mut self, step: &Nest<Tensor>, partial: bool) -> Result<()> {
        let flat = self.place(step)?;
        let position = self.writer.recorder().next_position();
        let starts_step = !self.writer.step_is_open();
        self.writer.append_cells(&self.stored(&flat), partial).map_err(set_twice)?;
        self.values.record(&flat, position, starts_step);
        let step = self.writer.episode_steps() - u64::from(!partial);
        self.apply(step, false)
    }

    /// Returns the leaves of a step, after all checks. The first step that passes them determines the columns.
    fn place<'a>(&mut self, step: &'a Nest<Tensor>) -> Result<FlatStep<'a>> {
        if let Some(shape) = &self.shape {
            let flat = shape.flatten(step)?;
            self.check(&flat)?;
            return Ok(flat);
        }
        let configs = self.patterns.iter().map(|pattern| &pattern.config);
        let shape = StepShape::new(step, configs.flat_map(StructuredConfig::sources))?;
        let flat = shape.flatten(step)?;
        self.check(&flat)?;
        let names = shape.stored().map(|(number, path)| ColumnName { number, path: path.clone() });
        self.writer.recorder_mut().add_named_columns(names)?;
        self.shape = Some(shape);
        Ok(flat)
    }

    /// Checks that conditions and priorities can use the values of a step, and compares the columns of patterns with their
    /// tables' signatures, as soon as the types and shapes of all of a pattern's columns are known.
    fn check(&mut self, flat: &FlatStep<'_>) -> Result<()> {
        self.values.check(flat)?;
        let mut checked: SmallVec<[usize; 4]> = SmallVec::new();
        for (index, pattern) in self.patterns.iter().enumerate().filter(|(_, pattern)| !pattern.is_checked) {
            let columns = pattern.config.nodes().map(|node| self.layout_of(node, flat));
            let columns: Option<SmallVec<[(DType, Shape); 4]>> = columns.collect();
            if let Some(columns) = columns {
                self.validation.check_layout(&self.writer, &pattern.table, columns)?;
                checked.push(index);
            }
        }
        for index in checked {
            self.patterns[index].is_checked = true;
        }
        Ok(())
    }

    /// Returns the type and the shape of an item's column, if they are known from this step or an earlier one.
    fn layout_of(&self, node: &PatternNode, flat: &FlatStep<'_>) -> Option<(DType, Shape)> {
        let column = self.shape.as_ref().and_then(|shape| shape.column(node.source()));
        let known = column.and_then(|column| self.writer.recorder().columns().get(column)?.spec());
        let (dtype, cell) = match known {
            Some(spec) => (spec.dtype, spec.shape.clone()),
            None => flat.leaf(node.source()).map(|value| (value.dtype(), value.shape().clone()))?,
        };
        let rows = (!node.is_squeezed()).then(|| u32::try_from(node.ages().count()).unwrap_or(u32::MAX));
        Some((dtype, item_shape(rows, &cell)))
    }

    /// Returns the leaves to which patterns refer, with the numbers of their columns.
    fn stored<'a>(&self, flat: &FlatStep<'a>) -> FlatCells<'a> {
        let column = |source| self.shape.as_ref().and_then(|shape| shape.column(source));
        flat.leaves().filter_map(|(source, value)| Some((column(source)?, Rows::step(value)))).collect()
    }

    /// Creates the items that are due at the newest step. Like dm-reverb's writer, this ignores a step that has no value
    /// to which a pattern refers: it does not count as a step since a pattern was last applied.
    fn apply(&mut self, step: u64, is_end_episode: bool) -> Result<()> {
        if !self.newest_step_has_values() {
            return Ok(());
        }
        let now = StepId { episode_id: self.writer.recorder().episode_id(), step };
        let mut applied = Ok(());
        for index in 0..self.patterns.len() {
            applied = applied.and(self.apply_pattern(index, now, is_end_episode));
        }
        applied
    }

    /// Creates the item of pattern `index`, if it is due. An error concerns only this item.
    fn apply_pattern(&mut self, index: usize, now: StepId, is_end_episode: bool) -> Result<()> {
        let Some(pattern) = self.patterns.get_mut(index).filter(|pattern| pattern.applied != Some(now))
        else {
            return Ok(());
        };
        if pattern.counted != Some(now) {
            pattern.counted = Some(now);
            pattern.steps_since_applied += 1;
        }
        let due = self.item_of(index, now.step, is_end_episode);
        if let (Err(_), Some(pattern)) = (&due, self.patterns.get_mut(index)) {
            // The step will never give a priority, so that a second attempt would only repeat the error.
            pattern.applied = Some(now);
        }
        let Some((table, priority, columns)) = due? else { return Ok(()) };
        self.name_columns(index, &table)?;
        self.writer.push_item(table, priority, &columns)?;
        if let Some(pattern) = self.patterns.get_mut(index) {
            pattern.applied = Some(now);
            pattern.steps_since_applied = 0;
        }
        Ok(())
    }

    fn newest_step_has_values(&self) -> bool {
        let newest = self.writer.history().len().checked_sub(1);
        newest.is_some_and(|at| {
            let mut columns = self.writer.recorder().columns().iter();
            columns.any(|column| column.cells().visit(at..at + 1, |_, _, _| {}).is_ok())
        })
    }

    /// Starts to compare the column names of pattern `index` with its table's names, once.
    fn name_columns(&mut self, index: usize, table: &Arc<str>) -> Result<()> {
        let Self { writer, patterns, validation, .. } = self;
        if let Some(pattern) = patterns.get_mut(index).filter(|pattern| !pattern.is_named) {
            validation.compare_names(writer, table, pattern.config.pattern().map(|_| ()))?;
            pattern.is_named = true;
        }
        Ok(())
    }

    /// Returns the item that pattern `index` creates at this step, if its conditions hold and all its steps exist.
    fn item_of(&self, index: usize, step: u64, is_end_episode: bool) -> Result<Option<DueItem>> {
        let Some(pattern) = self.patterns.get(index) else { return Ok(None) };
        let (config, len) = (&pattern.config, self.writer.history().len());
        let values = ConditionValues {
            step_index: to_i64(step),
            steps_since_applied: pattern.steps_since_applied,
            buffer_length: to_i64(len).min(i64::from(config.max_age())),
            is_end_episode,
            data: &|source| self.values.integer(source),
        };
        if !config.conditions().iter().all(|condition| condition.holds(&values)) {
            return Ok(None);
        }
        let columns: Option<SmallVec<[Column; 4]>> =
            config.nodes().map(|node| self.column(node, len)).collect();
        let Some(columns) = columns else { return Ok(None) };
        Ok(Some((Arc::clone(&pattern.table), self.priority(config, len)?, columns)))
    }

    /// Returns the cells of one node, or `None` if one of them is missing.
    fn column(&self, node: &PatternNode, len: u64) -> Option<Column> {
        let column = self.shape.as_ref()?.column(node.source())?;
        let state = self.writer.recorder().columns().get(column)?;
        let mut runs = Runs::new();
        for age in node.ages() {
            let at = len.checked_sub(u64::from(age))?;
            let add = |chunk: &_, offset, length| push_run(&mut runs, chunk, offset, length);
            state.cells().visit(at..at + 1, add).ok()?;
        }
        Some(Column::new(state.spec()?.clone(), runs, node.is_squeezed()))
    }

    fn priority(&self, config: &StructuredConfig, len: u64) -> Result<f64> {
        match config.priority_fn() {
            PriorityFn::Constant(value) => Ok(value),
            PriorityFn::TdError { max_priority_weight, column } => {
                let source = column.source();
                let node = config.nodes().find(|node| node.source() == source);
                let ages = node.into_iter().flat_map(PatternNode::ages);
                let values = ages.filter_map(|age| self.values.at(source, len.checked_sub(u64::from(age))?));
                let refuse = |why: String| {
                    Error::invalid(format!(
                        "no priority for table {:?}: column {source} {why}",
                        config.table()
                    ))
                };
                match td_error(max_priority_weight, values) {
                    Some(priority) if priority.is_finite() => Ok(priority),
                    Some(priority) => {
                        Err(refuse(format!("gives {priority}, but a priority needs finite values")))
                    }
                    None => Err(refuse("has no values".to_owned())),
                }
            }
        }
    }

    /// Returns the number of completed steps of this episode.
    pub fn episode_steps(&self) -> u64 {
        self.writer.episode_steps()
    }

    /// Returns whether the last append left its step open.
    pub fn step_is_open(&self) -> bool {
        self.writer.step_is_open()
    }

    /// Returns the number of unconfirmed items.
    pub fn pending_items(&self) -> usize {
        self.writer.pending_items()
    }

    /// Waits until all items are confirmed.
    ///
    /// # Errors
    /// The errors of [`TrajectoryWriter::flush`].
    pub async fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.writer.flush(timeout).await
    }

    /// Waits until at most `items` items are unconfirmed.
    ///
    /// # Errors
    /// The errors of [`TrajectoryWriter::flush`].
    pub async fn flush_until(&mut self, items: usize, timeout: Duration) -> Result<()> {
        self.writer.flush_until(items, timeout).await
    }

    /// Creates the items that are due at the end of an episode, flushes, and begins a new episode.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append) and [`TrajectoryWriter::end_episode`]. The episode then continues, and
    /// the call can be repeated. An item whose priority is not finite is not tried again.
    pub async fn end_episode(&mut self, clear_history: bool, timeout: Duration) -> Result<()> {
        let steps = self.writer.episode_steps() + u64::from(self.writer.step_is_open());
        if let Some(step) = steps.checked_sub(1) {
            self.apply(step, true)?;
        }
        self.writer.end_episode(clear_history, timeout).await?;
        if clear_history {
            self.values.clear();
        }
        Ok(())
    }

    /// Flushes and closes the writer, within the client's timeout. Every later call except this one fails.
    ///
    /// # Errors
    /// The errors of [`TrajectoryWriter::close`].
    pub async fn close(&mut self) -> Result<()> {
        self.writer.close().await
    }

    /// Like [`close`](Self::close), but with its own timeout.
    ///
    /// # Errors
    /// The errors of [`close`](Self::close).
    pub async fn close_with_timeout(&mut self, timeout: Duration) -> Result<()> {
        self.writer.close_with_timeout(timeout).await
    }

    /// Closes the writer without waiting; see [`TrajectoryWriter::close_now`].
    pub fn close_now(&mut self) {
        self.writer.close_now();
    }

    /// Closes the writer without waiting and without a warning; see [`TrajectoryWriter::discard`].
    pub fn discard(&mut self) {
        self.writer.discard();
    }

    /// Returns whether the writer has been closed.
    pub fn is_closed(&self) -> bool {
        self.writer.is_closed()
    }
}

/// As in dm-reverb, this error differs in kind from the error for steps written without patterns.
fn set_twice(error: Error) -> Error {
    let mismatch = StdError::source(&error).and_then(|source| source.downcast_ref::<AppendMismatch>());
    match mismatch {
        Some(mismatch) if mismatch.fault == AppendFault::SetTwice => {
            Error::with_source(ErrorKind::FailedPrecondition, mismatch.to_string(), mismatch.clone())
        }
        Some(_) | None => error,
    }
}

type FlatCells<'a> = SmallVec<[(usize, Rows<'a>); 8]>;

/// Table, priority and columns.
type DueItem = (Arc<str>, f64, SmallVec<[Column; 4]>);

fn to_i64(steps: u64) -> i64 {
    i64::try_from(steps).unwrap_or(i64::MAX)
}
