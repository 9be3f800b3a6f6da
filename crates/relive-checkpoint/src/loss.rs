//! Damage to a checkpoint.

use std::fmt;

/// A damaged part of a checkpoint: its place, the reason, and the lost items.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The path or URL of the damaged file.
    pub file: String,
    /// The offset of the damaged part in the file or, for files that are compressed as a whole, in the decompressed
    /// content.
    pub offset: u64,
    /// The table whose items are lost, or `None` if no items are lost.
    pub table: Option<String>,
    /// The number of items lost for this reason. An item that lacks several chunks is counted once, for the first
    /// missing chunk.
    pub items: u64,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, table, items, reason } = self;
        write!(f, "{file}, at byte {offset}")?;
        match table {
            Some(table) if *items == 1 => write!(f, ", 1 item of table `{table}`")?,
            Some(table) if *items > 0 => write!(f, ", {items} items of table `{table}`")?,
            Some(table) => write!(f, ", table `{table}`")?,
            None => {}
        }
        write!(f, ": {reason}")
    }
}
