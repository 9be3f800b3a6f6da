//! The store: rows for trajectories, who has them, and which goes next.

mod controller;
mod handle;
mod options;
mod order;
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
pub(crate) use handle::Inner;
pub use handle::{Change, Changed, Reweigh, State, Status, Store};
pub use options::{Candidate, Choose, MAX_READERS, MAX_WRITERS, Removal, StoreOptions};
pub use pinned::{Pinned, PinnedRow};
pub(crate) use place::Home;
pub use reader::Reader;
pub use shard::Shard;
pub(crate) use snapshot::{Snapshot, SnapshotRow};
pub use writing::{Inserted, Writing};
pub(crate) use writing::{check_column, check_length, check_weight};
