//! What a list of checkpoints says.

use std::sync::Arc;

use relive_table::{TableConfig, TableCounters, Timestamp};

use crate::manifest::{Description, TableDescription, Totals};
use crate::{Error, Format};

/// A checkpoint of a list.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Path or URL.
    pub location: String,
    /// Its format.
    pub format: Format,
    /// When it was written, as far as that can still be told.
    pub written_at: Option<Timestamp>,
    /// Size of what it has for itself: in our own format its file, without the segments that it refers to.
    pub size_bytes: u64,
    /// What it says of itself, or why that cannot be read.
    pub summary: Result<CheckpointSummary, Error>,
}

/// What a checkpoint says of itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckpointSummary {
    /// When it was written.
    pub created_at: Timestamp,
    /// What wrote it, such as `relive 0.1.0`; dm-reverb's format does not tell.
    pub software: Option<String>,
    /// Its tables, in the order in which the server has them.
    pub tables: Vec<TableSummary>,
    /// Items of all tables.
    pub items: u64,
    /// Distinct chunks; of dm-reverb's format only an inspection tells.
    pub chunks: Option<u64>,
    /// Bytes of the chunks as they are stored, likewise.
    pub chunk_bytes: Option<u64>,
    /// Number of segments; 0 in dm-reverb's format.
    pub segments: u64,
    /// Bytes of its file and of the segments that it refers to, which other checkpoints may refer to as well.
    pub total_bytes: u64,
}

/// What a checkpoint says of a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TableSummary {
    /// The rules.
    pub config: Arc<TableConfig>,
    /// The counters.
    pub counters: TableCounters,
    /// Number of items.
    pub items: u64,
}

impl CheckpointSummary {
    pub(super) fn new(description: &Description, size_bytes: u64) -> Self {
        let Totals { items, chunks, chunk_bytes } = description.totals.unwrap_or_default();
        Self {
            created_at: description.created_at,
            software: Some(description.software.clone()),
            tables: description.tables.iter().map(TableSummary::new).collect(),
            items,
            chunks: Some(chunks),
            chunk_bytes: Some(chunk_bytes),
            segments: description.segments.len() as u64,
            total_bytes: size_bytes + description.segment_bytes(),
        }
    }
}

impl TableSummary {
    fn new(table: &TableDescription) -> Self {
        let TableDescription { config, counters, items, structure: _ } = table;
        Self { config: Arc::clone(config), counters: *counters, items: *items }
    }
}
