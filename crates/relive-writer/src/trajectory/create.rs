//! Creates items.

use std::sync::Arc;

use relive_connection::{Error, Result};

use super::writer::TrajectoryWriter;
use crate::columns::Column;
use crate::items::{PendingItem, TrajectoryColumns};

/// The largest number of items that one call reports to the tuner of chunk lengths; they are spread evenly over the
/// call's items. The tuner uses only the newest ten.
const TUNED_ITEMS_PER_CALL: usize = 16;

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
    pub(super) fn note_items(&mut self) -> Result<()> {
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
        check_count("create_items", "trajectories", priorities, trajectories.len())?;
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
}

/// Returns the distance between the items of a call that are reported to the tuner.
pub(super) fn tuned_stride(items: usize) -> usize {
    items.div_ceil(TUNED_ITEMS_PER_CALL).max(1)
}

pub(super) fn check_count(call: &str, what: &str, priorities: &[f64], count: usize) -> Result<()> {
    if priorities.len() == count {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{call}: {} priorities for {count} {what}; give one for each",
        priorities.len()
    )))
}

pub(super) fn nan() -> Error {
    Error::invalid("create_item: the priority is NaN")
}
