//! The blocking writers.

use std::sync::Arc;
use std::time::Duration;

use relive_tensor::{Nest, Tensor};

use super::runtime::OwnRuntime;
use crate::{History, Result, TrajectoryColumns, Windows};

/// Appends steps and creates items that refer to them; see [`crate::TrajectoryWriter`].
#[derive(Debug)]
pub struct TrajectoryWriter {
    // This field is dropped before the runtime, because dropping the writer ends a task on the runtime.
    inner: crate::TrajectoryWriter,
    runtime: Arc<OwnRuntime>,
}

impl TrajectoryWriter {
    pub(super) fn new(runtime: Arc<OwnRuntime>, inner: crate::TrajectoryWriter) -> TrajectoryWriter {
        TrajectoryWriter { inner, runtime }
    }

    /// Appends one step.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::append`].
    pub fn append(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.inner.append(step)
    }

    /// Appends a part of a step. The step stays open.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::append_partial`].
    pub fn append_partial(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.inner.append_partial(step)
    }

    /// Appends many steps.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::append_sequence`].
    pub fn append_sequence(&mut self, steps: &Nest<Tensor>) -> Result<()> {
        self.inner.append_sequence(steps)
    }

    /// Returns the steps to which items can refer.
    pub fn history(&self) -> History<'_> {
        self.inner.history()
    }

    /// Returns the number of completed steps of this episode.
    pub fn episode_steps(&self) -> u64 {
        self.inner.episode_steps()
    }

    /// Returns the number of unconfirmed items.
    pub fn pending_items(&self) -> usize {
        self.inner.pending_items()
    }

    /// Declares the structure of this writer's items in `table`; see [`crate::TrajectoryWriter::name_columns`].
    pub fn name_columns(&mut self, table: &str, structure: &Nest<()>) {
        self.inner.name_columns(table, structure);
    }

    /// Creates an item and returns its key.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::create_item`].
    pub fn create_item(
        &mut self,
        table: &str,
        priority: f64,
        trajectory: impl Into<TrajectoryColumns>,
    ) -> Result<u64> {
        let trajectory = trajectory.into();
        match self.inner.try_create_item(table, priority, &trajectory)? {
            Some(key) => Ok(key),
            None => self.runtime.block_on(self.inner.create_item(table, priority, trajectory)),
        }
    }

    /// Creates an item from each of `trajectories` and returns their keys.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::create_items`].
    pub fn create_items(
        &mut self,
        table: &str,
        priorities: &[f64],
        trajectories: &[TrajectoryColumns],
    ) -> Result<Vec<u64>> {
        self.runtime.block_on(self.inner.create_items(table, priorities, trajectories))
    }

    /// Creates an item from each window of the history and returns their keys.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::create_window_items`].
    pub fn create_window_items(
        &mut self,
        table: &str,
        priorities: &[f64],
        windows: Windows<'_>,
    ) -> Result<Vec<u64>> {
        self.runtime.block_on(self.inner.create_window_items(table, priorities, windows))
    }

    /// Waits until all items are confirmed.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::flush`].
    pub fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.flush(timeout))
    }

    /// Waits until at most `items` items are unconfirmed.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::flush`].
    pub fn flush_until(&mut self, items: usize, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.flush_until(items, timeout))
    }

    /// Flushes and begins a new episode.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::end_episode`].
    pub fn end_episode(&mut self, clear_history: bool, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.end_episode(clear_history, timeout))
    }

    /// Forgets all columns, so that the next step may have different leaves, types and shapes.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::forget_columns`].
    pub fn forget_columns(&mut self) -> Result<()> {
        self.inner.forget_columns()
    }

    /// Sets how many steps a column keeps and how many steps a chunk holds.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::configure`].
    pub fn configure(
        &mut self,
        path: &str,
        num_keep_alive_refs: u32,
        chunk_steps: Option<u32>,
    ) -> Result<()> {
        self.inner.configure(path, num_keep_alive_refs, chunk_steps)
    }

    /// Flushes and closes the writer, within the client's timeout.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::close`].
    pub fn close(&mut self) -> Result<()> {
        self.runtime.block_on(self.inner.close())
    }

    /// Like [`close`](Self::close), but with a timeout for this call.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::close`].
    pub fn close_with_timeout(&mut self, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.close_with_timeout(timeout))
    }

    /// Closes the writer without waiting and without a warning; see [`crate::TrajectoryWriter::discard`].
    pub fn discard(&mut self) {
        self.inner.discard();
    }
}

/// Appends steps and creates items from patterns; see [`crate::StructuredWriter`].
#[derive(Debug)]
pub struct StructuredWriter {
    // This field is dropped before the runtime, because dropping the writer ends a task on the runtime.
    inner: crate::StructuredWriter,
    runtime: Arc<OwnRuntime>,
}

impl StructuredWriter {
    pub(super) fn new(runtime: Arc<OwnRuntime>, inner: crate::StructuredWriter) -> StructuredWriter {
        StructuredWriter { inner, runtime }
    }

    /// Appends one step and creates the items that are due.
    ///
    /// # Errors
    /// The errors of [`crate::StructuredWriter::append`].
    pub fn append(&mut self, step: &Nest<Tensor>) -> Result<()> {
        if self.inner.try_append(step)? {
            return Ok(());
        }
        self.runtime.block_on(self.inner.append(step))
    }

    /// Appends a part of a step. The step stays open.
    ///
    /// # Errors
    /// The errors of [`crate::StructuredWriter::append_partial`].
    pub fn append_partial(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.runtime.block_on(self.inner.append_partial(step))
    }

    /// Returns the number of completed steps of this episode.
    pub fn episode_steps(&self) -> u64 {
        self.inner.episode_steps()
    }

    /// Returns the number of unconfirmed items.
    pub fn pending_items(&self) -> usize {
        self.inner.pending_items()
    }

    /// Waits until all items are confirmed.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::flush`].
    pub fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.flush(timeout))
    }

    /// Waits until at most `items` items are unconfirmed.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::flush`].
    pub fn flush_until(&mut self, items: usize, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.flush_until(items, timeout))
    }

    /// Creates the items that are due at the end of an episode, flushes, and begins a new episode.
    ///
    /// # Errors
    /// The errors of [`crate::StructuredWriter::end_episode`].
    pub fn end_episode(&mut self, clear_history: bool, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.end_episode(clear_history, timeout))
    }

    /// Flushes and closes the writer, within the client's timeout.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::close`].
    pub fn close(&mut self) -> Result<()> {
        self.runtime.block_on(self.inner.close())
    }

    /// Like [`close`](Self::close), but with a timeout for this call.
    ///
    /// # Errors
    /// The errors of [`crate::TrajectoryWriter::close`].
    pub fn close_with_timeout(&mut self, timeout: Duration) -> Result<()> {
        self.runtime.block_on(self.inner.close_with_timeout(timeout))
    }

    /// Closes the writer without waiting and without a warning; see [`crate::TrajectoryWriter::discard`].
    pub fn discard(&mut self) {
        self.inner.discard();
    }
}
