//! The folder in which a server stores its checkpoints.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, Timestamp};

use super::draft::Draft;
use super::files::DONE;
use super::folders::{Folders, remove_checkpoint, remove_draft};
use super::name::Time;
use super::{load, save};
use crate::storage::disk::{Disk, RealDisk};
use crate::{Error, LoadOptions, Loaded, Tier};

/// The checkpoints of a server in dm-reverb's format, in one folder.
///
/// ```
/// use relive_checkpoint::reverb::Store;
/// use relive_table::Snapshot;
///
/// # let root = std::env::temp_dir().join(format!("relive-store-{}", std::process::id()));
/// let store = Store::new(&root);
/// assert!(store.load_latest()?.is_none(), "a folder that is not there has no checkpoint");
/// # Ok::<(), relive_checkpoint::Error>(())
/// ```
pub struct Store {
    root: PathBuf,
    fallback: Option<PathBuf>,
    keep: usize,
    tier: Option<Arc<Tier>>,
    disk: Box<dyn Disk>,
    /// The lock that is held while a checkpoint is written.
    writing: Mutex<()>,
}

impl Store {
    /// Returns the checkpoints in `root`, which is created with the first checkpoint.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::on(Box::new(RealDisk), root.into())
    }

    pub(super) fn on(disk: Box<dyn Disk>, root: PathBuf) -> Self {
        Self { root, fallback: None, keep: 1, tier: None, disk, writing: Mutex::new(()) }
    }

    /// Sets a checkpoint that is loaded as long as `root` has none. Unlike `root`, it is the folder of the checkpoint
    /// itself. An incomplete checkpoint is ignored, as in dm-reverb.
    #[must_use]
    pub fn fallback(mut self, checkpoint: impl Into<PathBuf>) -> Self {
        self.fallback = Some(checkpoint.into());
        self
    }

    /// Sets how many checkpoints to keep. The newest is always kept. Default: 1, as in dm-reverb. Older checkpoints are
    /// removed once a newer one is complete. Other files and folders in `root` are never touched, nor is a checkpoint
    /// that contains a foreign file.
    #[must_use]
    pub fn keep(mut self, checkpoints: usize) -> Self {
        self.keep = checkpoints.max(1);
        self
    }

    /// Sets the server's disk tier. Chunks in the tier are checked before they are written to a checkpoint, so that
    /// data that the disk has corrupted becomes an error and not part of a checkpoint.
    #[must_use]
    pub fn tier(mut self, tier: Arc<Tier>) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Returns the folder of the checkpoints.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the latest time of a checkpoint in `root`, complete or not.
    pub(crate) fn latest_time(root: &Path) -> Result<Option<Timestamp>, Error> {
        Ok(Folders::list_for_writer(root)?.latest_time().map(Time::timestamp))
    }

    /// Returns the folder of the newest complete checkpoint, or else the fallback, or `None` if there is no fallback
    /// either.
    ///
    /// # Errors
    /// The folder of checkpoints cannot be read.
    pub fn latest(&self) -> Result<Option<PathBuf>, Error> {
        let found = Folders::list(&self.root)?;
        for (_, folder) in &found.incomplete {
            tracing::warn!(folder = %folder.display(), "not a checkpoint: its writer did not finish it");
        }
        let newest = found.whole.into_iter().next_back().map(|(_, folder)| folder);
        Ok(newest.or_else(|| self.fallback.clone().filter(|folder| folder.join(DONE).exists())))
    }

    /// Reads the checkpoint that [`latest`](Self::latest) returns. Returns `None` if there is none.
    ///
    /// # Errors
    /// The newest checkpoint is damaged or cannot be read. In this case, no older checkpoint is tried; remove or repair
    /// the newest one first.
    pub fn load_latest(&self) -> Result<Option<Snapshot>, Error> {
        self.latest()?.map(|folder| Self::load(&folder)).transpose()
    }

    /// Reads the checkpoint in `folder`.
    ///
    /// # Errors
    /// The checkpoint is damaged, incomplete, or cannot be read. The error names the file, the record and the place.
    pub fn load(folder: &Path) -> Result<Snapshot, Error> {
        Self::load_with(folder, &LoadOptions::default()).map(|loaded| loaded.snapshot)
    }

    /// Reads the checkpoint in `folder`, or its intact part.
    ///
    /// # Errors
    /// The checkpoint cannot be read, or it is damaged and [salvaging](LoadOptions::salvage) is off or is impossible
    /// because the tables' rules are damaged.
    pub fn load_with(folder: &Path, options: &LoadOptions) -> Result<Loaded, Error> {
        load::read(folder, options)
    }

    /// Removes the checkpoint in `folder`, unless it contains foreign files.
    ///
    /// # Errors
    /// The folder contains foreign files, or the file system refused an operation.
    pub fn remove(folder: &Path) -> Result<(), Error> {
        remove_checkpoint(&RealDisk, folder)
    }

    /// Writes `snapshot` as the newest checkpoint, returns its folder, and removes older ones beyond the number to
    /// [keep](Self::keep). Concurrent calls run one after the other.
    ///
    /// # Errors
    /// The file system refused an operation. The existing checkpoints stay valid.
    pub fn save(&self, snapshot: &Snapshot) -> Result<PathBuf, Error> {
        self.save_after(None, snapshot)
    }

    fn save_after(&self, latest: Option<Timestamp>, snapshot: &Snapshot) -> Result<PathBuf, Error> {
        // A writer that panicked has left at most a draft.
        let _writing = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = Folders::list_for_writer(&self.root)?;
        found.drafts.iter().for_each(|folder| remove_draft(self.disk.as_ref(), folder));
        // Even if the clock was set back, the new checkpoint must not appear older than existing ones.
        let beside = found.latest_time().map(Time::next).max(latest.map(Time::after));
        let time = beside.map_or_else(Time::now, |beside| beside.max(Time::now()));
        let mut draft = Draft::begin(self.disk.as_ref(), &self.root, time)?;
        save::write(&mut draft, snapshot, self.tier.as_deref())?;
        let path = draft.publish()?;
        let old = (found.whole.len() + 1).saturating_sub(self.keep);
        for (_, folder) in found.whole.iter().take(old) {
            if let Err(error) = remove_checkpoint(self.disk.as_ref(), folder) {
                tracing::warn!(%error, "cannot remove an old checkpoint");
            }
        }
        Ok(path)
    }
}

impl Store {
    /// Calls [`save`](Self::save) for a server's checkpointer. This format writes all data each time.
    ///
    /// # Errors
    /// The errors of [`save`](Self::save).
    pub fn checkpoint(
        &self,
        snapshot: &Snapshot,
        progress: &CheckpointProgress,
    ) -> Result<SavedCheckpoint, Error> {
        self.checkpoint_after(None, snapshot, progress)
    }

    /// Like [`checkpoint`](Self::checkpoint), but with a time that is later than `latest` even if the clock is not.
    pub(crate) fn checkpoint_after(
        &self,
        latest: Option<Timestamp>,
        snapshot: &Snapshot,
        progress: &CheckpointProgress,
    ) -> Result<SavedCheckpoint, Error> {
        let items = snapshot.tables.iter().map(|table| table.items.len() as u64).sum();
        progress.expect(items, 0);
        let folder = self.save_after(latest, snapshot)?;
        progress.advance(items, 0);
        let bytes = size_bytes(&folder).map_err(|source| Error::io("measure", &folder, source))?;
        let location = folder.to_string_lossy().into_owned();
        Ok(SavedCheckpoint { location, written_bytes: bytes, total_bytes: bytes })
    }
}

fn size_bytes(folder: &Path) -> io::Result<u64> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("root", &self.root).field("keep", &self.keep).finish_non_exhaustive()
    }
}
