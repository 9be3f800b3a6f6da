//! The errors of inserts.

use thiserror::Error;

use crate::selector::PriorityError;

/// The reason why an insert was refused. The table has not changed.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum InsertError {
    /// The sampler or the remover refuses the item's priority.
    #[error("table {table:?} refused item {key}: {source}")]
    Priority {
        /// The name of the table.
        table: String,
        /// The key of the item.
        key: u64,
        /// The selector's reason.
        source: PriorityError,
    },
    /// The item by itself exceeds the table's `max_bytes`.
    #[error(
        "table {table:?} refused item {key}: its chunks have {size_bytes} bytes, but max_bytes is {limit}; \
         create items or chunks of fewer steps, or raise max_bytes"
    )]
    TooLarge {
        /// The name of the table.
        table: String,
        /// The key of the item.
        key: u64,
        /// The number of bytes in the item's chunks.
        size_bytes: u64,
        /// The table's `max_bytes`.
        limit: u64,
    },
}
