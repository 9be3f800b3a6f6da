//! Trajectories that are being read, and cannot be replaced in the meantime.
#![expect(unsafe_code, reason = "pinned rows become slices here; the block says why it is sound")]

use std::sync::Arc;

use super::options::Trajectory;
use super::place::Shared;
use super::reader::Reader;
use super::shard::Shard;
use crate::bytes::narrow;
use crate::error::{Error, Result};
use crate::memory::segment::Segment;
use crate::metrics::Metrics;
use crate::peers::Lease;
use crate::schema::Schema;

/// Trajectories that are not replaced until this value is dropped.
#[derive(Debug)]
pub struct Pinned {
    reader: Reader,
    rows: Vec<Trajectory>,
    /// For rows on other machines: by rank, the lease that keeps them in place.
    leases: Vec<(usize, Lease)>,
}

impl Pinned {
    pub(super) fn new(reader: Reader, rows: usize) -> Self {
        Self { reader, rows: Vec::with_capacity(rows), leases: Vec::new() }
    }

    /// Adds a row that its reader has pinned.
    pub(super) fn push(&mut self, row: Trajectory) {
        self.rows.push(row);
    }

    /// Adds the lease of rows on another machine, which must precede the rows.
    pub(super) fn keep(&mut self, rank: usize, lease: Lease) {
        self.leases.push((rank, lease));
    }

    /// Replaces the order of the rows.
    pub(super) fn reorder(&mut self, rows: Vec<Trajectory>) {
        self.rows = rows;
    }

    /// Returns the lease on the rows of a rank on another machine.
    pub(crate) fn lease(&self, rank: usize) -> Option<&Lease> {
        self.leases.iter().find(|(of, _)| *of == rank).map(|(_, lease)| lease)
    }

    /// Releases the pins of the rows for which `keep` returns false. Rows on other machines stay pinned until this
    /// value is dropped.
    pub fn retain(&mut self, mut keep: impl FnMut(&Trajectory) -> bool) {
        let (kept, dropped) = std::mem::take(&mut self.rows).into_iter().partition(|row| keep(row));
        self.rows = kept;
        self.release(&dropped);
    }

    /// Returns the trajectories, in the requested order.
    #[must_use]
    pub fn rows(&self) -> &[Trajectory] {
        &self.rows
    }

    /// Returns the schema of the trajectories.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.reader.schema()
    }

    /// Returns all steps of a trajectory in a column, in place.
    ///
    /// # Errors
    /// The row or column does not exist, or the row is on another machine. To read such a row, collect it.
    pub fn bytes(&self, row: usize, column: usize) -> Result<&[u8]> {
        let columns = self.schema().columns().len();
        let Some(pinned) = self.rows.get(row).filter(|_| column < columns) else {
            return Err(Error::not_found(format!(
                "there is no row {row} with a column {column}; there are {} rows and {columns} columns",
                self.rows.len()
            )));
        };
        let owner = self.reader.place(pinned.index)?.local()?;
        let (start, _) = owner.segment.row(column, owner.shard.local(pinned.index)?);
        let bytes = pinned.length * self.schema().step_bytes(column);
        // SAFETY: the bytes are within the mapping, which this value keeps alive, and were written before the row
        // became selectable. The protocol forbids writes to the row while it is pinned.
        Ok(unsafe { std::slice::from_raw_parts(start, narrow(bytes)) })
    }

    /// Appends the pins from another call to these.
    ///
    /// # Errors
    /// The other pins were made by another reader, or the connection to a store on another machine was lost between the
    /// two calls. In these cases, the other pins are released.
    pub fn append(&mut self, mut other: Pinned) -> Result<()> {
        if !self.reader.is(&other.reader) {
            return Err(Error::invalid("the trajectories were pinned by another reader"));
        }
        for (rank, lease) in &other.leases {
            if self.lease(*rank).is_some_and(|own| !own.is_with(lease)) {
                return Err(Error::unavailable(format!(
                    "the connection to {} was lost since the first trajectories were pinned; draw again",
                    lease.what()
                )));
            }
        }
        self.leases.append(&mut other.leases);
        self.rows.append(&mut other.rows);
        Ok(())
    }

    /// Returns the reader that pinned the rows.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        self.reader.segment()
    }

    pub(crate) fn shard(&self) -> Shard {
        self.reader.shard()
    }

    pub(crate) fn counters(&self) -> &Metrics {
        self.reader.counters()
    }
}

impl Pinned {
    /// Releases the pins of rows in this machine's memory.
    fn release(&self, rows: &[Trajectory]) {
        let mut owners: Vec<&Shared> = Vec::new();
        for row in rows {
            let place = self.reader.place(row.index).expect("was pinned by it");
            // Rows on other machines are released with their leases.
            let Ok(owner) = place.local() else { continue };
            owner.release(row.index);
            if !owners.iter().any(|other| std::ptr::eq(*other, owner)) {
                owners.push(owner);
            }
        }
        owners.iter().for_each(|owner| owner.notify_released());
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.release(&self.rows);
    }
}
