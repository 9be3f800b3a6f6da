//! What can be told of a checkpoint.

use std::sync::Arc;

use relive_table::{StoredItem, TableConfig, TableCounters, Timestamp};

use crate::{Format, Loss};

/// A checkpoint in a list.
#[derive(Debug, Clone)]
pub struct CheckpointInfo {
    /// Path or URL.
    pub location: String,
    /// Its format.
    pub format: Format,
    /// When it was begun. Of several the latest is the newest.
    pub written_at: Timestamp,
    /// Tables, items and bytes; or why they cannot be told: the checkpoint is damaged.
    pub size: Result<CheckpointSize, String>,
}

/// How large a checkpoint is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckpointSize {
    /// Tables.
    pub tables: u64,
    /// Items of all tables.
    pub items: u64,
    /// Bytes that it has for itself.
    pub own_bytes: u64,
    /// The same with what it refers to and may share with others.
    pub total_bytes: u64,
}

/// What came of reading a checkpoint from its first byte to the last.
#[derive(Debug, Clone)]
pub struct Report {
    /// Path or URL.
    pub location: String,
    /// Its format.
    pub format: Format,
    /// Items that are whole.
    pub items: u64,
    /// Chunks that are whole.
    pub chunks: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is not whole; empty if all is.
    pub losses: Vec<Loss>,
}

/// What is in a checkpoint.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The checkpoint.
    pub info: CheckpointInfo,
    /// The software that wrote it, if it says so.
    pub software: Option<String>,
    /// Its tables.
    pub tables: Vec<TableInspection>,
}

/// What is in a table of a checkpoint.
#[derive(Debug, Clone)]
pub struct TableInspection {
    /// The rules.
    pub config: Arc<TableConfig>,
    /// The counters.
    pub counters: TableCounters,
    /// Number of items.
    pub items: u64,
    /// Chunks that the items refer to, each counted once; `None` if that was not looked at.
    pub chunks: Option<u64>,
    /// Their bytes as stored.
    pub encoded_bytes: Option<u64>,
    /// Some of the items.
    pub sample: Vec<StoredItem>,
}
