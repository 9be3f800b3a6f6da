//! A run on disk: checkpoints of its tables. One table contains an item with all other state of the run.

use std::path::PathBuf;

use relive_checkpoint::{LoadOptions, Store};
use relive_engine::Engine;
use relive_table::{CheckpointProgress, Snapshot};

use crate::identity::{Comparison, Identity};
use crate::tables::{item, run};
use crate::{Result, RlError};

/// The number of checkpoints to keep: the newest and its predecessor.
const KEPT: usize = 2;

/// The advice if the folder belongs to another run.
const ADVICE: &str =
    "use the checkpoint's values to resume its run, or another folder for checkpoints to begin a new run";

/// The name of the folder in error messages.
const WHAT: &str = "the folder of checkpoints";

/// Where and when to save a run. A checkpoint contains the learner, counters, random streams, environments and replay
/// tables.
///
/// If the folder has checkpoints, the run resumes from the newest one. A resumed single-threaded run gives the same
/// numbers as an uninterrupted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoints {
    /// A local folder, created if necessary. A bucket's URL is rejected.
    pub folder: PathBuf,
    /// The number of environment steps between two checkpoints, rounded up to the end of a rollout. If the run learns
    /// from recorded data, the number of learner steps. In a run without actors whose environments cannot save their
    /// state, a checkpoint waits until as many episodes have ended since the last one as there are environments, at
    /// most until ten intervals after it.
    pub every: u64,
}

impl Checkpoints {
    /// Returns whether there is a checkpoint to resume from.
    ///
    /// # Errors
    /// Runs cannot be saved in this folder, the folder cannot be read, or another run uses it.
    pub fn any_exist(&self) -> Result<bool> {
        if self.folder.exists() { Folder::open(self)?.has_one() } else { Ok(false) }
    }
}

/// The folder of a run's checkpoints.
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
            // A URL that is used as a path would create a local folder.
            return Err(refused("the path of a folder: runs cannot be saved in buckets or at other URLs"));
        }
        if options.every == 0 {
            return Err(RlError::setting("the number of steps between checkpoints", 0, "at least 1"));
        }
        std::fs::create_dir_all(&options.folder).map_err(|error| RlError::file(&options.folder, error))?;
        let path = options.folder.display().to_string();
        Ok(Folder { path, store: Store::open(location)?.keep(KEPT), every: options.every })
    }

    /// Checks that the run may resume from a loaded checkpoint, before its tables are compared with the agent's.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun) if the checkpoint belongs to another run. Also fails if the checkpoint does not
    /// contain a run.
    pub(crate) fn expect_run(&self, snapshot: &Snapshot, own: &Identity) -> Result<()> {
        let Some((of_run, _)) = run_in(snapshot)? else {
            let got = of_no_run(&self.path, snapshot);
            return Err(RlError::setting(WHAT, got, "a new folder, or one with the checkpoints of a run"));
        };
        let (place, saved, asked) = (&self.path[..], "the checkpoint", "this run");
        of_run.expect(own, Comparison { place, saved, asked, advice: ADVICE })
    }

    /// Logs that the run resumes from this folder, and whether it is already at its end.
    pub(crate) fn announce(&self, steps: u64, is_done: bool) {
        tracing::info!("resumed from {} at step {steps}", self.path);
        if is_done {
            tracing::warn!(
                "the run in {} already has {steps} steps, so there is nothing left to do: increase the number of \
                 steps to continue it, or use another folder for a new run",
                self.path
            );
        }
    }

    /// Returns the number of environment steps between two checkpoints.
    pub(crate) fn every(&self) -> u64 {
        self.every
    }

    /// Returns whether there is a checkpoint.
    pub(crate) fn has_one(&self) -> Result<bool> {
        Ok(self.store.latest()?.is_some())
    }

    /// Loads the newest checkpoint.
    pub(crate) fn load(&self) -> Result<Option<Snapshot>> {
        let loaded = self.store.load_latest(&LoadOptions::new()).map_err(RlError::Unreadable)?;
        Ok(loaded.map(|loaded| loaded.snapshot))
    }

    /// Writes a checkpoint. Returns its snapshot, and whether it was written.
    pub(crate) fn save(&self, engine: &Engine) -> (Snapshot, Result<()>) {
        let snapshot = engine.snapshot();
        let written = self.store.save(snapshot.clone(), &CheckpointProgress::default());
        (snapshot, written.map(drop).map_err(RlError::from))
    }
}

/// Returns the identity and the state of the run in a snapshot, or `None` if it contains no run.
pub(super) fn run_in(snapshot: &Snapshot) -> Result<Option<(Identity, Vec<u8>)>> {
    let of_run = snapshot.tables.iter().find(|table| table.config.name == run::STATE);
    let Some(item) = of_run.and_then(|table| table.items.first()) else { return Ok(None) };
    let columns = item.data.trajectory.decode().map_err(|error| RlError::state("a run", error))?;
    item::read(&columns, "a run").map(Some)
}

/// Describes a checkpoint that contains no run.
pub(super) fn of_no_run(place: &str, snapshot: &Snapshot) -> String {
    let tables: Vec<&str> = snapshot.tables.iter().map(|table| table.config.name.as_str()).collect();
    format!("{place}, whose checkpoint has the tables {}", tables.join(", "))
}
