//! Why an insert is refused.

use thiserror::Error;

use crate::selector::PriorityError;

/// Why an insert was refused. The table has not changed.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum InsertError {
    /// The sampler or the remover refuses its priority.
    #[error("item {key} is refused by table {table:?}: {source}")]
    Priority {
        /// Name of the table.
        table: String,
        /// Key of the item.
        key: u64,
        /// The selector's reason.
        source: PriorityError,
    },
    /// The item alone exceeds the table's `max_bytes`.
    #[error(
        "item {key} is refused by table {table:?}: its chunks take {size_bytes} bytes, and max_bytes is {limit}; make \
         items or chunks of fewer steps, or raise max_bytes"
    )]
    TooLarge {
        /// Name of the table.
        table: String,
        /// Key of the item.
        key: u64,
        /// Bytes of the item's chunks.
        size_bytes: u64,
        /// The table's `max_bytes`.
        limit: u64,
    },
}
