//! Entries of a list of checkpoints.

use std::sync::Arc;

use relive_table::{TableConfig, TableCounters, Timestamp};

use crate::manifest::{Description, TableDescription, Totals};
use crate::{Error, Format};

/// A checkpoint in a list.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// The path or URL.
    pub location: String,
    /// The format of the checkpoint.
    pub format: Format,
    /// When the checkpoint was written, if that is known.
    pub written_at: Option<Timestamp>,
    /// The size of the files that belong only to this checkpoint. In Relive's format, this is its own file, without the
    /// segments.
    pub size_bytes: u64,
    /// The checkpoint's summary, or the error that prevented reading it.
    pub summary: Result<CheckpointSummary, Error>,
}

/// The summary of a checkpoint.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckpointSummary {
    /// When it was written.
    pub created_at: Timestamp,
    /// The software that wrote the checkpoint, such as `relive 0.1.0`. dm-reverb's format does not record it.
    pub software: Option<String>,
    /// The tables in the checkpoint, in the server's order.
    pub tables: Vec<TableSummary>,
    /// The number of items in all tables.
    pub items: u64,
    /// The number of distinct chunks. In dm-reverb's format, only an inspection can determine it.
    pub chunks: Option<u64>,
    /// The number of stored bytes of the chunks, which is known in the same cases as the number of chunks.
    pub chunk_bytes: Option<u64>,
    /// The number of segments; 0 in dm-reverb's format.
    pub segments: u64,
    /// The number of bytes in the checkpoint's file and in the segments to which it refers, which other checkpoints may
    /// share.
    pub total_bytes: u64,
}

/// A table in the summary of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TableSummary {
    /// The rules.
    pub config: Arc<TableConfig>,
    /// The counters.
    pub counters: TableCounters,
    /// The number of items.
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
