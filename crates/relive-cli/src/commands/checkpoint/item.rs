//! Formats an item for people and for programs.

use relive_table::StoredItem;
use relive_tensor::Column;
use serde::Serialize;

use crate::units::{bytes, number, utc};

/// Columns of an item that its line shows.
const SHOWN_COLUMNS: usize = 8;

#[derive(Serialize)]
pub(super) struct ItemFields {
    /// The key is text, because many JSON parsers cannot represent a 64-bit number.
    key: String,
    priority: f64,
    times_sampled: i32,
    inserted_at_s: f64,
    chunks: usize,
    chunk_bytes: u64,
    columns: Vec<ColumnFields>,
}

#[derive(Serialize)]
struct ColumnFields {
    dtype: String,
    shape: Vec<u32>,
}

pub(super) fn item_fields(item: &StoredItem) -> ItemFields {
    let trajectory = &item.data.trajectory;
    ItemFields {
        key: item.data.key.to_string(),
        priority: item.priority,
        times_sampled: item.times_sampled,
        inserted_at_s: item.data.inserted_at.as_nanos() as f64 / 1e9,
        chunks: trajectory.chunks().len(),
        chunk_bytes: trajectory.encoded_size_bytes(),
        columns: trajectory.columns().map(column_fields).collect(),
    }
}

fn column_fields(column: Column<'_>) -> ColumnFields {
    ColumnFields { dtype: column.dtype().to_string(), shape: column.shape().dims().to_vec() }
}

/// Formats the item as a line.
pub(super) fn line(item: &StoredItem) -> String {
    let trajectory = &item.data.trajectory;
    let shown = trajectory.columns().take(SHOWN_COLUMNS).map(|column| {
        let sizes: Vec<_> = column.shape().dims().iter().map(ToString::to_string).collect();
        format!("{}[{}]", column.dtype(), sizes.join(", "))
    });
    let mut columns = shown.collect::<Vec<_>>();
    let hidden = trajectory.num_columns().saturating_sub(SHOWN_COLUMNS);
    if hidden > 0 {
        columns.push(format!("and {hidden} more columns"));
    }
    format!(
        "    {}: priority {}, sampled {} times, inserted {}, {}: {}",
        item.data.key,
        number(item.priority),
        item.times_sampled,
        utc(item.data.inserted_at),
        bytes(trajectory.encoded_size_bytes()),
        columns.join(", ")
    )
}
