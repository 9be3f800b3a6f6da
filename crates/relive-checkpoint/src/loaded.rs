//! How to load, and what comes of it.

use std::sync::Arc;

use relive_table::{CheckpointProgress, Snapshot};

use crate::Loss;

/// How a checkpoint is loaded.
///
/// ```
/// use relive_checkpoint::LoadOptions;
/// let options = LoadOptions::new().threads(4).salvage(true);
/// assert!(options.salvages());
/// ```
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    threads: Option<usize>,
    salvage: bool,
    progress: Option<Arc<CheckpointProgress>>,
}

/// Most threads that load unless more are asked for: disks give no more beyond that.
const MAX_THREADS: usize = 16;

impl LoadOptions {
    /// As many threads as there are processors, at most 16, and all must be whole.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many threads read, check and build, at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Whether to load what is whole and to report the rest as [`Loaded::losses`], instead of failing.
    #[must_use]
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }

    /// Counts up while the checkpoint is loaded.
    #[must_use]
    pub fn progress(mut self, progress: Arc<CheckpointProgress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Whether damage is reported instead of refused.
    #[must_use]
    pub fn salvages(&self) -> bool {
        self.salvage
    }

    pub(crate) fn num_threads(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        self.threads.unwrap_or_else(available)
    }

    pub(crate) fn counter(&self) -> Arc<CheckpointProgress> {
        self.progress.clone().unwrap_or_default()
    }
}

/// A checkpoint that was loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The tables. Sequence numbers of items are those that they had. Tables that have lost items count them as deleted.
    pub snapshot: Snapshot,
    /// Path or URL of the checkpoint.
    pub location: String,
    /// What was not whole; empty unless it was to be [salvaged](LoadOptions::salvage).
    pub losses: Vec<Loss>,
}
