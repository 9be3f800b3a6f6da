//! The files of a checkpoint.

pub(super) const TABLES: &str = "tables.tfrecord";
pub(super) const ITEMS: &str = "items.tfrecord";
pub(super) const CHUNKS: &str = "chunks.tfrecord";
pub(super) const DONE: &str = "DONE";

/// The files of a checkpoint. Without the last one, the checkpoint is incomplete.
pub(super) const FILES: [&str; 4] = [TABLES, ITEMS, CHUNKS, DONE];
