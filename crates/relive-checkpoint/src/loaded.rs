//! Options for loading checkpoints, and the results of loading.

use std::sync::Arc;

use relive_table::{CheckpointProgress, Snapshot};
use relive_tensor::{Chunk, Ledger};

use crate::{Error, Loss, Tier};

/// The options for loading a checkpoint.
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
    tier: Option<(Arc<Tier>, u64)>,
}

/// The default limit on the number of loading threads, because more threads do not make disks faster.
const MAX_THREADS: usize = 16;

impl LoadOptions {
    /// Creates the default options: as many threads as there are processors, up to 16, and an error if the checkpoint
    /// is damaged.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads that read, check and build the data, at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Sets whether to load the intact parts of a damaged checkpoint and report the rest as [`Loaded::losses`], instead
    /// of failing.
    #[must_use]
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }

    /// Sets counters that are updated while the checkpoint is loaded.
    #[must_use]
    pub fn progress(mut self, progress: Arc<CheckpointProgress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sets a disk tier, and how many bytes of chunks may stay in memory. The chunks are then in a [ledger of movable
    /// chunks](relive_tensor::Ledger::of_movable_chunks). Chunks beyond `budget_bytes` move to the tier while others
    /// are still being read.
    #[must_use]
    pub fn tier(mut self, tier: Arc<Tier>, budget_bytes: u64) -> Self {
        self.tier = Some((tier, budget_bytes));
        self
    }

    /// Returns whether damage is reported instead of causing an error.
    #[must_use]
    pub fn salvages(&self) -> bool {
        self.salvage
    }

    pub(crate) fn num_threads(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        self.threads.unwrap_or_else(available)
    }

    /// Returns the ledger of the loaded chunks.
    pub(crate) fn ledger(&self) -> Ledger {
        if self.tier.is_some() { Ledger::of_movable_chunks() } else { Ledger::default() }
    }

    /// Moves chunks to the tier if the ledger's chunks take too much memory.
    pub(crate) fn spill(&self, chunks: &[Arc<Chunk>], ledger: &Ledger) -> Result<(), Error> {
        match &self.tier {
            Some((tier, budget)) if ledger.snapshot().resident_bytes() > *budget => tier.store_all(chunks),
            _ => Ok(()),
        }
    }

    pub(crate) fn counter(&self) -> Arc<CheckpointProgress> {
        self.progress.clone().unwrap_or_default()
    }
}

/// A loaded checkpoint.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The tables. Items keep their sequence numbers. Tables count lost items as deleted.
    pub snapshot: Snapshot,
    /// The path or URL of the checkpoint.
    pub location: String,
    /// The damage, which is empty unless the checkpoint was [salvaged](LoadOptions::salvage).
    pub losses: Vec<Loss>,
}

impl Loaded {
    pub(crate) fn is_whole(&self) -> bool {
        self.losses.is_empty()
    }
}
