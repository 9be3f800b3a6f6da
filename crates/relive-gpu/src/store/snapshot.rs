//! A consistent snapshot of a store, for checkpoints.

/// A selectable row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SnapshotRow {
    pub(crate) row: u64,
    pub(crate) generation: u64,
    pub(crate) length: u32,
    pub(crate) weight: f32,
    pub(crate) inserted: u64,
    pub(crate) sampled: u64,
}

/// A consistent snapshot of a store, without the rows' bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) rows: Vec<SnapshotRow>,
    pub(crate) generations: Vec<u64>,
    /// The free rows in order of allocation; rows that are being written count as free, and come last.
    pub(crate) free: Vec<u64>,
    pub(crate) order: Vec<u64>,
    pub(crate) random: u64,
    pub(crate) committed: u64,
}
