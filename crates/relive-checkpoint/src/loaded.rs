//! How to load, and what comes of it.

use std::sync::Arc;

use relive_table::{CheckpointProgress, Snapshot};
use relive_tensor::{Chunk, Ledger};

use crate::{Error, Loss, Tier};

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
    tier: Option<(Arc<Tier>, u64)>,
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

    /// A disk tier, and the bytes of chunks that may stay in memory. The chunks are in a
    /// [ledger of movable chunks](relive_tensor::Ledger::of_movable_chunks) then; those beyond `budget_bytes` go to
    /// the tier while others are still being read.
    #[must_use]
    pub fn tier(mut self, tier: Arc<Tier>, budget_bytes: u64) -> Self {
        self.tier = Some((tier, budget_bytes));
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

    /// The account of the chunks that will be read.
    pub(crate) fn ledger(&self) -> Ledger {
        if self.tier.is_some() { Ledger::of_movable_chunks() } else { Ledger::default() }
    }

    /// Moves chunks to the tier if those of the ledger take too much memory.
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

/// A checkpoint that was loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The tables. Sequence numbers of items are those that they had. Tables that have lost items count them as
    /// deleted.
    pub snapshot: Snapshot,
    /// Path or URL of the checkpoint.
    pub location: String,
    /// What was not whole; empty unless it was to be [salvaged](LoadOptions::salvage).
    pub losses: Vec<Loss>,
}
