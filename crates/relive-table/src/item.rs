//! Items as they are inserted, stored and sampled.

use std::sync::Arc;

use relive_tensor::{ResidenceGuard, Trajectory};

use crate::time::Timestamp;

/// An item to be inserted.
#[derive(Clone, Debug)]
pub struct NewItem {
    /// The item's identity in its table. The writer chooses it.
    pub key: u64,
    /// The item's priority. Its meaning and range depend on the table's selectors.
    pub priority: f64,
    /// The number of times that the item already counts as sampled: 0 for a new item, or the original's count for a
    /// copy.
    pub times_sampled: i32,
    /// The item's data.
    pub trajectory: Trajectory,
}

/// The immutable part of an item, shared by the table and its readers.
///
/// The order of the fields matters: the fields that readers use are next to the reference counts, in as few cache lines
/// as possible.
#[derive(Debug)]
#[repr(C)]
pub struct ItemData {
    /// The item's data.
    pub trajectory: Trajectory,
    /// The item's identity in its table.
    pub key: u64,
    /// The item's position in the order of the table's inserts. It grows with each insert, and a reset does not restart
    /// it.
    pub sequence: u64,
    /// When the item was inserted.
    pub inserted_at: Timestamp,
}

/// An item in its current state.
#[derive(Clone, Copy, Debug)]
pub struct ItemView<'a> {
    /// The immutable part.
    pub data: &'a Arc<ItemData>,
    /// Its current priority.
    pub priority: f64,
    /// The number of times that the item has been sampled.
    pub times_sampled: i32,
}

/// A sampled item. Its data has been copied elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledRow {
    /// The item's identity in its table.
    pub key: u64,
    /// The item's priority when it was sampled.
    pub priority: f64,
    /// The probability with which the item was chosen, in (0, 1].
    pub probability: f64,
    /// The number of items in the table.
    pub table_size: u64,
    /// When the item was inserted.
    pub inserted_at: Timestamp,
    /// The number of times that the item has been sampled, including this sample.
    pub times_sampled: i32,
}

/// A sampled item.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The immutable part.
    pub item: Arc<ItemData>,
    /// The item's priority when it was sampled.
    pub priority: f64,
    /// The probability with which the item was chosen, in (0, 1].
    pub probability: f64,
    /// The number of items in the table, before any removal caused by this sample.
    pub table_size: u64,
    /// The number of times that the item has been sampled, including this sample.
    pub times_sampled: i32,
    /// Whether the sample had to wait for the rate limiter. The table itself does not wait and sets this to false; code
    /// that waits sets it to true.
    pub rate_limited: bool,
    /// Prevents a disk tier from moving the item's data out of memory. The table leaves this field empty; the code that
    /// loads the data sets it.
    pub residence_guard: ResidenceGuard,
}
