//! The checkpoints of a server.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, Timestamp};

use super::garbage::Listing;
use super::load;
use super::places::Places;
use super::save::{SaveResult, Sizes, Target, save};
use crate::storage::{self, Storage, WriterLock};
use crate::tier::Tier;
use crate::{Error, ErrorKind, names};
use crate::{LoadOptions, Loaded};

/// The checkpoints of a server in Relive's format, in a folder or a bucket that is locked against other writers.
///
/// Successive checkpoints share data, so each chunk is written only once.
///
/// ```
/// use relive_checkpoint::{LoadOptions, Store};
/// use relive_table::{CheckpointProgress, Snapshot, TableConfig, TableCounters, TableSnapshot};
///
/// # let root = std::env::temp_dir().join(format!("relive-own-store-{}", std::process::id()));
/// # let root = root.to_str().unwrap();
/// let store = Store::open(root)?.keep(2);
/// assert!(store.load_latest(&LoadOptions::new())?.is_none(), "nothing was saved yet");
/// # let (counters, items) = (TableCounters::default(), Vec::new());
/// let table = TableSnapshot { config: TableConfig::new("replay").into(), counters, items, structure: None };
/// let snapshot = Snapshot { tables: vec![table], ..Snapshot::default() };
/// let saved = store.save(snapshot, &CheckpointProgress::default())?;
/// assert!(saved.location.ends_with("checkpoint-0000000001.relive"));
///
/// let loaded = store.load_latest(&LoadOptions::new())?.unwrap();
/// assert_eq!(loaded.location, saved.location);
/// assert!(loaded.snapshot.table("replay").is_some());
/// assert!(Store::open(root).is_err(), "one writer at a time");
/// # drop(store);
/// # std::fs::remove_dir_all(root).unwrap();
/// # Ok::<(), relive_checkpoint::Error>(())
/// ```
pub struct Store {
    storage: Arc<dyn Storage>,
    keep: usize,
    sizes: Sizes,
    places: Places,
    tier: Option<Arc<Tier>>,
    /// The lock, which excludes other writers. The mutex is held while a checkpoint is written. `None` if the location
    /// is read-only.
    lock: Mutex<Option<Box<dyn WriterLock>>>,
}

impl Store {
    /// Opens the checkpoints at `location`: a path, or the URL of a bucket. The folder is created if necessary.
    ///
    /// A read-only folder can also be opened: its checkpoints can be loaded, but no checkpoint can be saved.
    ///
    /// # Errors
    /// `InUse` if another process is writing there; `Location` for an unknown kind of URL; `Io` if the storage refuses
    /// an operation.
    pub fn open(location: &str) -> Result<Self, Error> {
        Self::on(storage::open(location)?, Sizes::default())
    }

    pub(super) fn on(storage: Arc<dyn Storage>, sizes: Sizes) -> Result<Self, Error> {
        let lock = match storage.lock() {
            Ok(lock) => Some(lock),
            Err(error) if error.is_read_only() => {
                tracing::warn!(%error, "this location is read-only: checkpoints can be loaded from it, but not saved");
                None
            }
            Err(error) => return Err(error),
        };
        let store = Self {
            storage,
            keep: DEFAULT_KEEP,
            sizes,
            places: Places::new(),
            tier: None,
            lock: Mutex::new(lock),
        };
        if store.locked().is_some() {
            store.collect(usize::MAX);
        }
        Ok(store)
    }

    /// Sets how many checkpoints to keep. The newest is always kept. Default: 3. Older checkpoints are removed once a
    /// newer one is complete.
    #[must_use]
    pub fn keep(mut self, checkpoints: usize) -> Self {
        self.keep = checkpoints.max(1);
        self
    }

    /// Sets the server's disk tier. If both folders are on the same file system, checkpoints link to the tier's files
    /// instead of writing the chunks again.
    #[must_use]
    pub fn tier(mut self, tier: Arc<Tier>) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Returns the path or URL of the root.
    #[must_use]
    pub fn location(&self) -> String {
        self.storage.describe("")
    }

    /// Returns the path or URL of the newest checkpoint, whether or not it is intact, or `None` if there are none.
    ///
    /// # Errors
    /// The root cannot be listed.
    pub fn latest(&self) -> Result<Option<String>, Error> {
        let newest = Listing::read(self.storage.as_ref())?.newest();
        Ok(newest.map(|number| self.storage.describe(&names::checkpoint_name(number))))
    }

    /// Loads the newest checkpoint. Returns `None` if there are no checkpoints. The next [`save`](Self::save) does not
    /// rewrite the data to which the loaded checkpoint refers.
    ///
    /// # Errors
    /// `Damaged` if the newest checkpoint is damaged, with the file, place and table, because an older one is never
    /// loaded silently; `Io` if the storage refuses an operation.
    pub fn load_latest(&self, options: &LoadOptions) -> Result<Option<Loaded>, Error> {
        let listing = Listing::read(self.storage.as_ref())?;
        let Some(newest) = listing.newest() else { return Ok(None) };
        load(self.storage.as_ref(), &names::checkpoint_name(newest), options, Some(&self.places)).map(Some)
    }

    /// Loads one of the checkpoints, identified by its path or URL, or by its name alone. The next [`save`](Self::save)
    /// does not rewrite the data to which the loaded checkpoint refers.
    ///
    /// # Errors
    /// `Location` if this is not the name of a checkpoint, and the errors of [`load_latest`](Self::load_latest).
    pub fn load(&self, location: &str, options: &LoadOptions) -> Result<Loaded, Error> {
        let name = location.rsplit('/').next().unwrap_or(location);
        if names::checkpoint_number(name).is_none() {
            return Err(Error::plain(
                ErrorKind::Location,
                format!("{location} does not have the name of a checkpoint"),
            ));
        }
        load(self.storage.as_ref(), name, options, Some(&self.places))
    }

    /// Writes `snapshot` as the newest checkpoint, and removes older ones beyond the number to [keep](Self::keep).
    /// References to items are dropped as the items are written. Concurrent calls run one after the other.
    ///
    /// # Errors
    /// `Io` if the storage refuses an operation; `InUse` if the folder was moved, and another process has begun to write
    /// in its place. The existing checkpoints stay valid.
    pub fn save(&self, snapshot: Snapshot, progress: &CheckpointProgress) -> Result<SavedCheckpoint, Error> {
        self.save_after(None, snapshot, progress)
    }

    /// Like [`save`](Self::save), but with a time that is later than `latest` even if the clock is not.
    pub(crate) fn save_after(
        &self,
        latest: Option<Timestamp>,
        snapshot: Snapshot,
        progress: &CheckpointProgress,
    ) -> Result<SavedCheckpoint, Error> {
        let mut lock = self.locked();
        if !lock.as_ref().is_some_and(|lock| lock.is_held()) {
            *lock = None;
            *lock = Some(self.storage.lock()?);
        }
        let target = Target {
            storage: &self.storage,
            places: &self.places,
            sizes: self.sizes,
            tier: self.tier.as_deref(),
            latest,
        };
        let saved = save(target, snapshot, progress);
        match &saved {
            Ok(_) => self.collect(self.keep),
            // The checkpoint may have taken over files of the tier, whose space would otherwise stay occupied until a
            // checkpoint succeeds. If there is another writer, its files may not be referenced yet.
            Err(error) if self.tier.is_some() && !error.is_of_another() => {
                self.collect(usize::MAX);
                self.forget_removed();
            }
            Err(_) => {}
        }
        let SaveResult { name, written_bytes, total_bytes } = saved?;
        Ok(SavedCheckpoint { location: self.storage.describe(&name), written_bytes, total_bytes })
    }

    fn locked(&self) -> MutexGuard<'_, Option<Box<dyn WriterLock>>> {
        // A writer that panicked has left at most unreferenced files.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes unneeded files. A failure is only logged as a warning.
    fn collect(&self, keep: usize) {
        let storage = self.storage.as_ref();
        let collected = Listing::read(storage).and_then(|listing| listing.collect(storage, keep));
        if let Err(error) = collected {
            tracing::warn!(%error, "cannot remove data that no checkpoint needs; the next checkpoint will retry");
        }
    }

    /// Forgets the places of chunks in segments that do not exist, so that the next checkpoint takes over the tier's
    /// files again. Forgets nothing if the storage cannot be listed: the next checkpoint then writes the chunks of such
    /// segments.
    fn forget_removed(&self) {
        if let Ok(existing) = Listing::read(self.storage.as_ref()) {
            self.places.keep_confirmed(|segment| existing.segments.contains_key(segment));
        }
    }
}

/// The default number of checkpoints to keep.
pub(crate) const DEFAULT_KEEP: usize = 3;

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("location", &self.location())
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}
