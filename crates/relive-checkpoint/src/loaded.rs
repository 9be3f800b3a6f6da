//! What comes of loading a checkpoint.

use std::sync::Arc;

use relive_table::{CheckpointProgress, Snapshot};

use crate::Loss;

/// How to load.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Threads that read, check and build; 0 as many as the machine has.
    pub threads: usize,
    /// Load what is whole and report what is not, instead of refusing all.
    pub salvage: bool,
    /// Counts how far the loading is.
    pub progress: Arc<CheckpointProgress>,
}

/// A checkpoint that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// The tables.
    pub snapshot: Snapshot,
    /// Path or URL of the checkpoint.
    pub location: String,
    /// What could not be loaded. Empty unless [`LoadOptions::salvage`] asked to go on.
    pub losses: Vec<Loss>,
}
