//! The store: rows for trajectories, their owners, and the order of eviction.

mod capture;
mod controller;
mod handle;
mod inner;
mod options;
mod order;
mod pin;
mod pinned;
mod place;
mod random;
mod reader;
mod shard;
mod snapshot;
mod writing;

#[cfg(test)]
mod tests;

pub(crate) use controller::Place;
pub use handle::{Change, Changed, Reweigh, State, Status, Store};
#[cfg(test)]
pub(crate) use inner::SWEEPS;
pub(crate) use inner::{Inner, SWEEP_EVERY, WriterSlot, WriterSlots};
pub use options::{Choose, MAX_READERS, MAX_WRITERS, Removal, StoreOptions, Trajectory};
pub use pinned::Pinned;
pub(crate) use place::StorePlace;
pub use reader::Reader;
pub use shard::Shard;
pub(crate) use snapshot::{Snapshot, SnapshotRow};
pub use writing::{Inserted, Writing};
pub(crate) use writing::{check_column, check_length, check_weight};
