//! The folder in which a server stores its checkpoints.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, Timestamp};

use super::draft::Draft;
use super::folders::{Folders, remove_checkpoint, remove_draft};
use super::name::Time;
use super::{load, save};
use crate::storage::disk::{Disk, RealDisk};
use crate::{Error, LoadOptions, Loaded, Tier};

/// A server's checkpoints in dm-reverb's format, in one folder. The caller saves one at a time.
pub(crate) struct Store {
    root: PathBuf,
    keep: usize,
    tier: Option<Arc<Tier>>,
    disk: Box<dyn Disk>,
}

impl Store {
    /// Returns the checkpoints in `root`, which is created with the first checkpoint. `keep` is the number of checkpoints
    /// to keep. Older ones are removed once a newer one is complete. Other files and folders in `root` are never
    /// touched, nor is a checkpoint that contains a foreign file.
    pub(crate) fn new(root: PathBuf, keep: usize) -> Self {
        Self { root, keep, tier: None, disk: Box::new(RealDisk) }
    }

    #[cfg(test)]
    pub(super) fn on(disk: Box<dyn Disk>, root: PathBuf) -> Self {
        Self { disk, ..Self::new(root, 1) }
    }

    pub(crate) fn keep(self, checkpoints: usize) -> Self {
        Self { keep: checkpoints, ..self }
    }

    /// Sets the server's disk tier. Chunks in the tier are checked before they are written to a checkpoint, so that
    /// data that the disk has corrupted becomes an error and not part of a checkpoint.
    pub(crate) fn tier(self, tier: Option<Arc<Tier>>) -> Self {
        Self { tier, ..self }
    }

    /// Returns the latest time of a checkpoint in `root`, complete or not.
    pub(crate) fn latest_time(root: &Path) -> Result<Option<Timestamp>, Error> {
        Ok(Folders::list_for_writer(root)?.latest_time().map(Time::timestamp))
    }

    /// Reads the checkpoint in `folder`, or its intact part.
    ///
    /// # Errors
    /// The checkpoint cannot be read, or it is damaged and [salvaging](LoadOptions::salvage) is off or is impossible
    /// because the tables' rules are damaged.
    pub(crate) fn load(folder: &Path, options: &LoadOptions) -> Result<Loaded, Error> {
        load::read(folder, options)
    }

    /// Returns whether the checkpoint in `folder` has the name that its writer gave it. If not, somebody renamed or
    /// copied it, and it is kept.
    pub(crate) fn may_remove(folder: &Path) -> bool {
        Time::in_name(folder).is_some()
    }

    /// Removes the checkpoint in `folder`, unless it contains foreign files.
    ///
    /// # Errors
    /// The folder contains foreign files, or the file system refused an operation.
    pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
        remove_checkpoint(&RealDisk, folder)
    }

    /// Writes `snapshot` as the newest checkpoint, with a time that is later than `latest` even if the clock is not, and
    /// removes older ones beyond the number to keep. This format writes all data each time.
    ///
    /// # Errors
    /// The file system refused an operation. The existing checkpoints stay valid.
    pub(crate) fn save(
        &self,
        latest: Option<Timestamp>,
        snapshot: &Snapshot,
        progress: &CheckpointProgress,
    ) -> Result<SavedCheckpoint, Error> {
        let items = snapshot.tables.iter().map(|table| table.items.len() as u64).sum();
        progress.expect(items, 0);
        let folder = self.write(latest, snapshot)?;
        progress.advance(items, 0);
        let bytes = size_bytes(&folder).map_err(|source| Error::io("measure", &folder, source))?;
        let location = folder.to_string_lossy().into_owned();
        Ok(SavedCheckpoint { location, written_bytes: bytes, total_bytes: bytes })
    }

    fn write(&self, latest: Option<Timestamp>, snapshot: &Snapshot) -> Result<PathBuf, Error> {
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

fn size_bytes(folder: &Path) -> io::Result<u64> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
