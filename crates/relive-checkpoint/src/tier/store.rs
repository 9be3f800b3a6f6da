//! The tier as a whole.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use relive_tensor::{Chunk, ColdError, ColdStore};

use super::index::{Index, Stored};
use super::segment::{Segments, TierSegment};
use crate::limits::MAX_OPEN_FILES;
use crate::segment::{self, Place, SegmentId};
use crate::storage::disk::{Disk, RealDisk, open_files_limit};
use crate::storage::{LocalStorage, Storage, WriterLock};
use crate::{Error, ErrorKind, names};

/// The subfolder of the given folder, so that the given folder may also contain the checkpoints.
const FOLDER: &str = "spilled";

/// The disk tier's files, in their own folder.
///
/// Chunks of a [ledger of movable chunks](relive_tensor::Ledger::of_movable_chunks) are [stored](ColdStore::store) in
/// memory-mapped files, which hold their frames while they are outside the process's own memory. A
/// [fetch](ColdStore::fetch) reads them into that memory; the frames keep their places, so that they can leave memory
/// again without being rewritten. If a frame is accessed without a fetch, the system reads it from the mapped file.
///
/// The folder `spilled` below the given one belongs to one process at a time. Files that an earlier process left behind
/// are removed.
pub struct Tier {
    pub(super) root: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) index: Arc<Index>,
    pub(super) segments: Arc<Segments>,
    /// The number of bytes moved since the mappings last returned their memory.
    pub(super) moved_bytes: AtomicU64,
    /// `None` once the tier is closed.
    lock: Mutex<Option<Box<dyn WriterLock>>>,
}

impl Tier {
    /// Opens the tier below `folder`, which is created if necessary. A relative path is resolved now, so later changes of
    /// the working directory do not matter.
    ///
    /// # Errors
    /// If another process uses the folder, or the folder is not writable.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = std::path::absolute(&folder)
            .map_err(|source| Error::io("find the folder", folder.as_ref(), source))?;
        let max_open_files = open_files_limit().map_or(MAX_OPEN_FILES, |limit| MAX_OPEN_FILES.min(limit / 4));
        Self::on(Arc::new(RealDisk), &folder, max_open_files)
    }

    pub(super) fn on(disk: Arc<dyn Disk>, folder: &Path, max_open_files: u64) -> Result<Self, Error> {
        let root = folder.join(FOLDER);
        let storage = LocalStorage::on(Arc::clone(&disk), &root);
        refuse_checkpoints(&storage)?;
        let lock = storage.lock().map_err(|error| match error.kind() {
            ErrorKind::InUse => {
                let text = format!(
                    "{}: another server uses this folder for its disk tier; use another folder",
                    root.display()
                );
                Error::plain(ErrorKind::InUse, text)
            }
            _ => error,
        })?;
        remove_leftovers(&storage)?;
        let files = root.join(segment::FOLDER);
        disk.create_folders(&files).map_err(|source| Error::io("create the folder", &files, source))?;
        let segments = Arc::new(Segments::new(max_open_files));
        let (index, moved_bytes, lock) = (Arc::default(), AtomicU64::new(0), Mutex::new(Some(lock)));
        Ok(Self { root, disk, index, segments, moved_bytes, lock })
    }

    /// Returns the number of bytes in all files.
    pub fn size_bytes(&self) -> u64 {
        self.segments.size_bytes()
    }

    /// Removes the files when a server ends, and allows other processes to use the folder. Chunks that are still held
    /// remain unchanged, and no more chunks can be stored.
    pub fn close(&self) {
        let lock = self.guard().take();
        self.segments.unlink();
        drop(lock);
    }

    pub(super) fn guard(&self) -> MutexGuard<'_, Option<Box<dyn WriterLock>>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the folder that contains the files.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Returns the place of a chunk, if it has one.
    pub(crate) fn place_of(&self, chunk: &Chunk) -> Option<(Arc<TierSegment>, Place)> {
        self.index.get(chunk).map(|Stored { segment, place }| (segment, place))
    }
}

impl ColdStore for Tier {
    /// Skips chunks whose frames cannot be moved.
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError> {
        Ok(self.store_all(chunks)?)
    }

    /// Returns an error that names the chunk, the file and the place.
    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, ColdError> {
        Ok(self.fetch_all(chunks)?)
    }

    fn is_sparse(&self) -> bool {
        self.segments.is_sparse()
    }

    fn is_sparse_around(&self, chunk: &Chunk) -> bool {
        self.index.get(chunk).is_some_and(|stored| stored.segment.is_sparse())
    }
}

/// Segments of checkpoints look like leftover files, and must not be mistaken for them.
fn refuse_checkpoints(storage: &dyn Storage) -> Result<(), Error> {
    let root = storage.describe("");
    let files = storage.list("").map_err(|source| Error::storage("list", &root, source))?;
    match files.iter().find(|file| names::checkpoint_number(&file.name).is_some()) {
        Some(file) => {
            let text = format!(
                "{root} has checkpoints ({}), so it cannot be the folder of a disk tier; use another folder",
                file.name
            );
            Err(Error::plain(ErrorKind::Location, text))
        }
        None => Ok(()),
    }
}

/// Removes the files of a process that has ended.
fn remove_leftovers(storage: &dyn Storage) -> Result<(), Error> {
    let broken = |what, name: &str| {
        let file = storage.describe(name);
        move |source| Error::storage(what, &file, source)
    };
    for entry in storage.list(segment::FOLDER).map_err(broken("list", segment::FOLDER))? {
        if SegmentId::from_file_name(&entry.name).is_some() {
            storage.remove(&entry.name).map_err(broken("remove", &entry.name))?;
        }
    }
    Ok(())
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier").field("root", &self.root).finish_non_exhaustive()
    }
}
