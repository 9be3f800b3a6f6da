//! What of a checkpoint is not whole.

use std::fmt;

/// Something of a checkpoint that is not whole: where, what is wrong, and what it costs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Path or URL of the damaged file.
    pub file: String,
    /// The byte of the file at which the damaged part begins; of files that are compressed as a whole, the byte of
    /// what comes out.
    pub offset: u64,
    /// The table whose items are lost, if any are.
    pub table: Option<String>,
    /// Number of items that are lost for this reason. An item that lacks several chunks counts for the first.
    pub items: u64,
    /// What is wrong.
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
