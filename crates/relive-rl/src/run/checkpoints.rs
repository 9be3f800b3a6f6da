//! A run on disk: checkpoints of its tables, of which one has an item with all that is no table.

use std::path::PathBuf;

use relive_checkpoint::{LoadOptions, Store};
use relive_engine::Engine;
use relive_table::{CheckpointProgress, Snapshot};

use crate::identity::Identity;
use crate::tables::{item, run};
use crate::{Result, RlError};

/// Checkpoints that are kept: the newest, and the one before.
const KEPT: usize = 2;

/// What to do about another run's folder.
const ADVICE: &str = "ask for the same, or give another folder for checkpoints";

/// Where they are, in messages.
const WHAT: &str = "the folder of checkpoints";

/// Where and when a run is saved: learner, counters, random streams, environments and replay in one checkpoint.
///
/// A run whose folder has a checkpoint goes on from the newest. In one thread it then gives the same numbers as if it
/// had never ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoints {
    /// Where they are: a folder of this machine, made if it is not there. A bucket's URL is refused.
    pub folder: PathBuf,
    /// Steps in the environment from one to the next, rounded up to the end of a rollout.
    pub every: u64,
}

impl Checkpoints {
    /// Whether there is one, which a run goes on from.
    ///
    /// # Errors
    /// The folder is none where runs are saved; it cannot be read, or another run is at work there.
    pub fn are_there(&self) -> Result<bool> {
        if self.folder.exists() { Folder::open(self)?.has_one() } else { Ok(false) }
    }
}

/// The folder with a run's checkpoints.
pub(crate) struct Folder {
    path: String,
    store: Store,
    every: u64,
}

impl Folder {
    pub(crate) fn open(options: &Checkpoints) -> Result<Folder> {
        let refused = |expected| RlError::setting(WHAT, options.folder.display(), expected);
        let location = options.folder.to_str().ok_or_else(|| refused("UTF-8"))?;
        if location.contains("://") {
            // As a path it would be a new folder of this machine.
            return Err(refused("the path of a folder: runs are not saved in buckets, nor at other URLs"));
        }
        if options.every == 0 {
            return Err(RlError::setting("the steps from one checkpoint to the next", 0, "at least 1"));
        }
        std::fs::create_dir_all(&options.folder).map_err(|error| RlError::file(&options.folder, error))?;
        let path = options.folder.display().to_string();
        Ok(Folder { path, store: Store::open(location)?.keep(KEPT), every: options.every })
    }

    /// Whether a checkpoint that was read there may be gone on from, before its tables are held against those of the
    /// agent.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun); it is none of a run.
    pub(crate) fn expect_run(&self, snapshot: &Snapshot, asked: &Identity) -> Result<()> {
        let of_run = snapshot.tables.iter().find(|table| table.config.name == run::STATE);
        let Some(item) = of_run.and_then(|table| table.items.first()) else {
            let tables: Vec<&str> = snapshot.tables.iter().map(|table| table.config.name.as_str()).collect();
            let got = format!("{}, whose checkpoint has the tables {}", self.path, tables.join(", "));
            return Err(RlError::setting(WHAT, got, "a new one, or one with the checkpoints of a run"));
        };
        let columns = item.data.trajectory.decode().map_err(|error| RlError::state("a run", error))?;
        item::read(&columns)?.0.expect(asked, &self.path, ADVICE)
    }

    /// Says that the run goes on from there.
    pub(crate) fn announce(&self, steps: u64) {
        tracing::info!("resumed from {} at step {steps}", self.path);
    }

    /// Steps in the environment from one checkpoint to the next.
    pub(crate) fn every(&self) -> u64 {
        self.every
    }

    /// Whether there is a checkpoint.
    pub(crate) fn has_one(&self) -> Result<bool> {
        Ok(self.store.latest()?.is_some())
    }

    /// The newest checkpoint.
    pub(crate) fn load(&self) -> Result<Option<Snapshot>> {
        let loaded = self.store.load_latest(&LoadOptions::new()).map_err(RlError::Unreadable)?;
        Ok(loaded.map(|loaded| loaded.snapshot))
    }

    /// Writes one; what was written.
    pub(crate) fn save(&self, engine: &Engine) -> Result<Snapshot> {
        let snapshot = engine.snapshot();
        self.store.save(snapshot.clone(), &CheckpointProgress::default())?;
        Ok(snapshot)
    }
}
