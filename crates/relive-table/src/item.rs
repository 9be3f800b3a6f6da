//! Items, as they come in, as they are kept, and as they are handed out.

use std::sync::Arc;

use relive_tensor::{AtHand, Trajectory};

use crate::time::Timestamp;

/// An item to be inserted.
#[derive(Clone, Debug)]
pub struct NewItem {
    /// Chosen by the writer; the item's identity in its table.
    pub key: u64,
    /// See the table's selectors for what it means and which values they take.
    pub priority: f64,
    /// How often it counts as sampled already: 0 for a fresh item, kept from elsewhere for a copied one.
    pub times_sampled: i32,
    /// Its data.
    pub trajectory: Trajectory,
}

/// The part of an item that never changes. Shared by the table and everyone who sampled it.
///
/// In memory as it is written here: what readers look at lies beside the reference counts, in as few cache lines as can
/// be.
#[derive(Debug)]
#[repr(C)]
pub struct ItemData {
    /// Its data.
    pub trajectory: Trajectory,
    /// The item's identity in its table.
    pub key: u64,
    /// Its place in the order of the table's inserts; grows with each, also across a reset.
    pub sequence: u64,
    /// When it was inserted.
    pub inserted_at: Timestamp,
}

/// An item as it is in its table now.
#[derive(Clone, Copy, Debug)]
pub struct ItemView<'a> {
    /// The part that never changes.
    pub data: &'a Arc<ItemData>,
    /// Its priority now.
    pub priority: f64,
    /// How often it has been sampled.
    pub times_sampled: i32,
}

/// What is known of an item that was sampled, and whose data was copied elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledRow {
    /// The item's identity in its table.
    pub key: u64,
    /// Its priority at that time.
    pub priority: f64,
    /// The probability with which it was chosen, in (0, 1].
    pub probability: f64,
    /// Number of items in the table.
    pub table_size: u64,
    /// When it was inserted.
    pub inserted_at: Timestamp,
    /// How often it has been sampled, this time included.
    pub times_sampled: i32,
}

/// An item as it was sampled.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The part that never changes.
    pub item: Arc<ItemData>,
    /// Its priority at that time.
    pub priority: f64,
    /// The probability with which it was chosen, in (0, 1].
    pub probability: f64,
    /// Number of items in the table, before a deletion which this sample caused.
    pub table_size: u64,
    /// How often it has been sampled, this time included.
    pub times_sampled: i32,
    /// Whether the sample had to wait for the rate limiter. The table does not wait, so it says false; whoever
    /// waits fills it in.
    pub rate_limited: bool,
    /// Keeps the item's data in memory where a disk tier could move it. The table leaves it empty; whoever has seen to
    /// it that the data is in memory fills it in.
    pub at_hand: AtHand,
}
