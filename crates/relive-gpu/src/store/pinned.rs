//! Trajectories that are being read, and cannot be replaced meanwhile.
#![expect(unsafe_code, reason = "pinned rows become slices here; the block says why it is sound")]

use std::sync::Arc;

use super::place::{PinnedRow, Shared};
use super::reader::Reader;
use super::shard::Shard;
use crate::bytes::narrow;
use crate::error::{Error, Result};
use crate::memory::segment::Segment;
use crate::metrics::Metrics;
use crate::peers::Lease;
use crate::schema::Schema;

/// Trajectories that nobody replaces until this is dropped.
#[derive(Debug)]
pub struct Pinned {
    reader: Reader,
    rows: Vec<PinnedRow>,
    /// For the rows of other machines: by rank, what keeps them in place.
    leases: Vec<(usize, Lease)>,
}

impl Pinned {
    pub(super) fn new(reader: Reader, rows: usize) -> Self {
        Self { reader, rows: Vec::with_capacity(rows), leases: Vec::new() }
    }

    /// Takes in what its reader has pinned.
    pub(super) fn push(&mut self, row: PinnedRow) {
        self.rows.push(row);
    }

    /// Takes in what keeps rows of another machine in place, before it has the rows.
    pub(super) fn keep(&mut self, rank: usize, lease: Lease) {
        self.leases.push((rank, lease));
    }

    /// Puts the rows into another order.
    pub(super) fn reorder(&mut self, rows: Vec<PinnedRow>) {
        self.rows = rows;
    }

    /// What keeps the rows of a rank of another machine in place.
    pub(crate) fn lease(&self, rank: usize) -> Option<&Lease> {
        self.leases.iter().find(|(of, _)| *of == rank).map(|(_, lease)| lease)
    }

    /// The trajectories, in the order in which they were asked for.
    #[must_use]
    pub fn rows(&self) -> &[PinnedRow] {
        &self.rows
    }

    /// What they are made of.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.reader.schema()
    }

    /// All steps of a trajectory in a column, as they lie in the store.
    ///
    /// # Errors
    /// There is no such row or column, or the row is another machine's: that is read by collecting it.
    pub fn bytes(&self, row: usize, column: usize) -> Result<&[u8]> {
        let columns = self.schema().columns().len();
        let Some(pinned) = self.rows.get(row).filter(|_| column < columns) else {
            return Err(Error::not_found(format!(
                "there is no row {row} with a column {column}; there are {} rows and {columns} columns",
                self.rows.len()
            )));
        };
        let owner = self.reader.place(pinned.index)?.here()?;
        let (start, _) = owner.segment.row(column, owner.shard.local(pinned.index)?);
        let bytes = pinned.length * self.schema().step_bytes(column);
        // SAFETY: the bytes lie in the mapping, which this keeps, and were written before the row became selectable.
        // As long as the row is pinned, by protocol nobody writes to it.
        Ok(unsafe { std::slice::from_raw_parts(start, narrow(bytes)) })
    }

    /// Takes in what another call has pinned, behind its own trajectories.
    ///
    /// # Errors
    /// Another reader has pinned them, or the connection to a store of another machine was lost between; then they
    /// are let go of.
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

    /// The reader that pinned them.
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

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut owners: Vec<&Shared> = Vec::new();
        for row in &self.rows {
            let place = self.reader.place(row.index).expect("was pinned by it");
            // Those of other machines go with their leases.
            let Ok(owner) = place.here() else { continue };
            owner.release(row.index);
            if !owners.iter().any(|other| std::ptr::eq(*other, owner)) {
                owners.push(owner);
            }
        }
        owners.iter().for_each(|owner| owner.tell_released());
    }
}
