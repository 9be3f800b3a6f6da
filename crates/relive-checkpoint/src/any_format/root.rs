//! The place in which a server's checkpoints are stored.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, Timestamp};

use super::list::newest;
use super::load::{load_one, named, none_there, path_of, with_chosen};
use super::location::{absolute, is_same_root, local_path, locate, location_of, trimmed};
use crate::names::split_root;
use crate::native::DEFAULT_KEEP;
use crate::reverb;
use crate::storage::disk::lock_folder;
use crate::storage::own_lock::OwnLock;
use crate::{Catalog, Error, ErrorKind, Format, LoadOptions, Loaded, Store, Tier};

/// The folder or bucket of a server's checkpoints. It loads both formats and writes one of them.
///
/// ```
/// use relive_checkpoint::{Format, LoadOptions, Root};
/// use relive_table::{CheckpointProgress, Snapshot, TableConfig, TableCounters, TableSnapshot};
///
/// # let folder = std::env::temp_dir().join(format!("relive-root-{}", std::process::id()));
/// # let folder = folder.to_str().unwrap();
/// # let (counters, items) = (TableCounters::default(), Vec::new());
/// # let table = TableSnapshot { config: TableConfig::new("replay").into(), counters, items, structure: None };
/// # let snapshot = Snapshot { tables: vec![table], ..Snapshot::default() };
/// let old = Root::new(folder).format(Format::Reverb);
/// old.save(snapshot.clone(), &CheckpointProgress::default())?;
/// old.release();
///
/// let root = Root::new(folder).keep(2);
/// root.lock()?;
/// assert!(root.load_latest(&LoadOptions::new())?.is_some(), "what dm-reverb's format has is taken over");
/// let saved = root.save(snapshot, &CheckpointProgress::default())?;
/// assert!(saved.location.ends_with("checkpoint-0000000001.relive"));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), relive_checkpoint::Error>(())
/// ```
pub struct Root {
    location: String,
    format: Format,
    keep: usize,
    fallback: Option<String>,
    tier: Option<Arc<Tier>>,
    keeps_all: AtomicBool,
    writer: Mutex<Option<Writer>>,
}

/// The writer, and the locks that exclude other writers.
struct Writer {
    store: AnyStore,
    _folder: Option<OwnLock>,
}

enum AnyStore {
    Relive(Store),
    Reverb(reverb::Store),
}

impl Writer {
    fn keeping_all(self) -> Self {
        let store = match self.store {
            AnyStore::Relive(store) => AnyStore::Relive(store.keep(usize::MAX)),
            AnyStore::Reverb(store) => AnyStore::Reverb(store.keep(usize::MAX)),
        };
        Self { store, ..self }
    }
}

impl Root {
    /// Returns the checkpoints at `location`, a path or URL. A relative path is resolved now, so later changes of the
    /// working directory do not matter.
    pub fn new(location: impl Into<String>) -> Self {
        let location = absolute(trimmed(&location.into()));
        Self {
            location,
            format: Format::default(),
            keep: DEFAULT_KEEP,
            fallback: None,
            tier: None,
            keeps_all: AtomicBool::new(false),
            writer: Mutex::new(None),
        }
    }

    /// Sets the format to write. Default: Relive's. dm-reverb's format requires a folder on this machine.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets how many checkpoints of the format to keep. The newest is always kept. Default: 3. Checkpoints of the other
    /// format are not removed.
    #[must_use]
    pub fn keep(mut self, checkpoints: usize) -> Self {
        self.keep = checkpoints.max(1);
        self
    }

    /// Sets a fallback, which is loaded as long as this root has no checkpoint. The fallback is a checkpoint in either
    /// format, or another root. A fallback that does not exist, has no checkpoint or is incomplete is ignored, with a
    /// warning. A damaged one, or a location that cannot be used, is an error.
    #[must_use]
    pub fn fallback(mut self, location: impl Into<String>) -> Self {
        self.fallback = Some(absolute(&location.into()));
        self
    }

    /// Sets the server's disk tier. Its files become part of checkpoints in Relive's format; see [`Store::tier`]. In
    /// dm-reverb's format, chunks in the tier are checked before they are written, so that data that the disk has
    /// corrupted becomes an error and not part of a checkpoint.
    #[must_use]
    pub fn tier(mut self, tier: Arc<Tier>) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Returns the path or URL of the root.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Excludes other writers until this value is dropped or [released](Self::release). Creates the folder if
    /// necessary.
    ///
    /// [`save`](Self::save) also takes the lock if it is not already held.
    ///
    /// # Errors
    /// `InUse` if another server is writing there; `Location` if the format does not support the location; `Io` if the
    /// storage refuses an operation.
    pub fn lock(&self) -> Result<(), Error> {
        self.writer_of(&mut self.guard()).map(drop)
    }

    /// Allows other processes to write here. Later calls take the lock again.
    pub fn release(&self) {
        *self.guard() = None;
    }

    /// Loads the newest checkpoint in either format, or else the [fallback](Self::fallback). Returns `None` if there is
    /// neither.
    ///
    /// # Errors
    /// `Damaged` if the newest checkpoint is damaged, with the file, place and table, because an older one is never
    /// loaded silently; `Io` if the storage refuses an operation.
    pub fn load_latest(&self, options: &LoadOptions) -> Result<Option<Loaded>, Error> {
        let loaded = self.load_chosen(|| newest(&self.location), options)?;
        let is_own = loaded.as_ref().is_some_and(|loaded| !loaded.snapshot.lacks_own_rules);
        if let Some(path) = local_path(&self.location).filter(|_| !is_own) {
            reverb::Store::warn_of_incomplete(&path)?;
        }
        match loaded {
            Some(loaded) => Ok(Some(loaded)),
            None => self.load_fallback(options),
        }
    }

    /// Loads the checkpoint at `location`, in this root or elsewhere, or the newest one if it is another root.
    ///
    /// # Errors
    /// `Location` if there is no checkpoint, and the errors of [`load_latest`](Self::load_latest).
    pub fn load(&self, location: &str, options: &LoadOptions) -> Result<Loaded, Error> {
        self.load_chosen(|| named(location), options)?.ok_or_else(|| none_there(location))
    }

    /// Writes `snapshot` as the newest checkpoint, and removes older ones of its format beyond the number to
    /// [keep](Self::keep). Concurrent calls run one after the other.
    ///
    /// # Errors
    /// The errors of [`lock`](Self::lock). The existing checkpoints stay valid.
    pub fn save(&self, snapshot: Snapshot, progress: &CheckpointProgress) -> Result<SavedCheckpoint, Error> {
        match &self.writer_of(&mut self.guard())?.store {
            AnyStore::Relive(store) => store.save_after(self.latest_of_reverb()?, snapshot, progress),
            AnyStore::Reverb(store) => store.save(self.latest_of_ours()?, &snapshot, progress),
        }
    }

    /// Returns the time of dm-reverb's latest checkpoint. Even if the clock has been set back, a new checkpoint must
    /// not look older than this.
    fn latest_of_reverb(&self) -> Result<Option<Timestamp>, Error> {
        local_path(&self.location).map_or(Ok(None), |path| reverb::Store::latest_time(&path))
    }

    /// Returns the time of Relive's latest checkpoint. Even if the clock has been set back, a new checkpoint must not
    /// look older than this.
    fn latest_of_ours(&self) -> Result<Option<Timestamp>, Error> {
        let ours = Catalog::open(&self.location)?.checkpoints()?;
        Ok(ours.iter().filter_map(|info| info.written_at).max())
    }

    fn load_chosen(
        &self,
        choose: impl Fn() -> Result<Option<(Format, String)>, Error>,
        options: &LoadOptions,
    ) -> Result<Option<Loaded>, Error> {
        let load = |format, checkpoint: &str| self.load_listed(format, checkpoint, options);
        let loaded = with_chosen(choose, load, Loaded::is_whole)?;
        if loaded.as_ref().is_some_and(|loaded| !loaded.is_whole()) {
            self.keep_all();
        }
        Ok(loaded)
    }

    /// Stops the removal of older checkpoints, because they may contain data that later checkpoints lack.
    fn keep_all(&self) {
        tracing::warn!(
            location = self.location,
            "keeping all older checkpoints, because the loaded one has losses"
        );
        self.keeps_all.store(true, Ordering::Relaxed);
        let mut writer = self.guard();
        *writer = writer.take().map(Writer::keeping_all);
    }

    fn load_listed(&self, format: Format, checkpoint: &str, options: &LoadOptions) -> Result<Loaded, Error> {
        if let Some(Writer { store: AnyStore::Relive(store), .. }) = &*self.guard()
            && format == Format::Relive
            && is_same_root(split_root(checkpoint).0, &self.location)
        {
            // The store remembers the places of chunks, and does not write them again.
            return store.load(checkpoint, options);
        }
        load_one(format, checkpoint, options)
    }

    fn load_fallback(&self, options: &LoadOptions) -> Result<Option<Loaded>, Error> {
        let Some(fallback) = &self.fallback else { return Ok(None) };
        let load = |format, checkpoint: &str| load_one(format, checkpoint, options);
        let loaded = with_chosen(|| existing(fallback), load, Loaded::is_whole)?;
        if loaded.is_none() {
            tracing::warn!(fallback, "ignoring the fallback, because there is no complete checkpoint");
        }
        Ok(loaded)
    }

    fn guard(&self) -> MutexGuard<'_, Option<Writer>> {
        // A writer that panicked has not published any state.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer_of<'a>(&self, writer: &'a mut Option<Writer>) -> Result<&'a Writer, Error> {
        match writer {
            Some(writer) => Ok(writer),
            None => Ok(writer.insert(self.open()?)),
        }
    }

    fn open(&self) -> Result<Writer, Error> {
        let store = match self.format {
            Format::Relive => {
                let store = Store::open(&self.location)?.keep(self.keep);
                AnyStore::Relive(match &self.tier {
                    Some(tier) => store.tier(Arc::clone(tier)),
                    None => store,
                })
            }
            Format::Reverb => AnyStore::Reverb(self.reverb_store()?),
        };
        // The lock excludes other servers, whichever format they write. Otherwise, the checkpoints of two servers could
        // be mixed in one root.
        let writer = Writer { store, _folder: lock_folder_of(&self.location)? };
        Ok(if self.keeps_all.load(Ordering::Relaxed) { writer.keeping_all() } else { writer })
    }

    fn reverb_store(&self) -> Result<reverb::Store, Error> {
        let Some(path) = local_path(&self.location) else {
            let text =
                format!("dm-reverb's format supports only folders on this machine, not {}", self.location);
            return Err(Error::plain(ErrorKind::Location, text));
        };
        let made = std::fs::create_dir_all(&path);
        made.map_err(|source| Error::io("create the folder", &path, source))?;
        Ok(reverb::Store::new(path, self.keep).tier(self.tier.clone()))
    }
}

/// Returns the complete checkpoint that a fallback names, or `None` if there is none. A location that cannot be used is
/// an error: a server that starts with empty tables would soon write a newer checkpoint, and never use the fallback.
fn existing(fallback: &str) -> Result<Option<(Format, String)>, Error> {
    if let Some(path) = local_path(fallback)
        && !path.try_exists().map_err(|source| Error::io("open the fallback", &path, source))?
    {
        return Ok(None);
    }
    let is_reverb = locate(fallback)?.format() == Some(Format::Reverb);
    if is_reverb && !reverb::is_whole(&path_of(fallback)) {
        return Ok(None);
    }
    named(fallback)
}

/// Locks a folder on this machine against writers of both formats. dm-reverb would mistake a lock file for a
/// checkpoint, so the folder itself is locked.
pub(super) fn lock_folder_of(location: &str) -> Result<Option<OwnLock>, Error> {
    let Some(path) = local_path(location).filter(|path| path.is_dir()) else { return Ok(None) };
    match lock_folder(&path).map_err(|source| Error::io("open the folder", &path, source))? {
        Some(lock) => Ok(Some(lock)),
        None => {
            let text = format!(
                "{}: another process writes its checkpoints here; stop it, or use another folder",
                location_of(&path)
            );
            Err(Error::plain(ErrorKind::InUse, text))
        }
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { location, format, keep, fallback, tier: _, keeps_all: _, writer: _ } = self;
        let mut debug = f.debug_struct("Root");
        debug.field("location", location).field("format", format).field("keep", keep);
        debug.field("fallback", fallback).finish_non_exhaustive()
    }
}
