//! A segment of the tier.

use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use relive_tensor::Chunk;

use super::mapping::Mapping;
use crate::segment::{Place, record};
use crate::storage::Source;
use crate::storage::disk::Disk;

/// A file of chunks, opened for reading and mapped. It is removed when its last chunk is dropped.
pub(crate) struct TierSegment {
    pub(super) path: PathBuf,
    pub(super) mapping: Mapping,
    /// The file, if it stays open.
    file: Option<Box<dyn Source>>,
    disk: Arc<dyn Disk>,
    size_bytes: u64,
    /// The number of bytes in the records of live chunks.
    live_bytes: AtomicU64,
    all: Arc<Segments>,
}

/// All segments of a tier.
pub(super) struct Segments {
    size_bytes: AtomicU64,
    live_bytes: AtomicU64,
    open_files: AtomicU64,
    max_open_files: u64,
    alive: Mutex<Vec<Weak<TierSegment>>>,
}

/// A segment's file, for reading.
pub(super) enum OpenFile<'a> {
    Kept(&'a dyn Source),
    Own(Box<dyn Source>),
}

impl<'a> Deref for OpenFile<'a> {
    type Target = dyn Source + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Kept(file) => *file,
            Self::Own(file) => file.as_ref(),
        }
    }
}

/// The amount of waste up to which a tier does not count as sparse.
const FREE_BYTES: u64 = 64 << 20;

impl Segments {
    pub(super) fn new(max_open_files: u64) -> Self {
        let (size_bytes, live_bytes, open_files) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { size_bytes, live_bytes, open_files, max_open_files, alive: Mutex::default() }
    }

    pub(super) fn add(
        self: &Arc<Self>,
        path: PathBuf,
        mapping: Mapping,
        disk: Arc<dyn Disk>,
    ) -> Arc<TierSegment> {
        let size_bytes = mapping.bytes().len() as u64;
        self.size_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        let (live_bytes, all) = (AtomicU64::new(0), Arc::clone(self));
        let file = self.keep_open(disk.as_ref(), &path);
        let segment = Arc::new(TierSegment { path, mapping, file, disk, size_bytes, live_bytes, all });
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.retain(|segment| segment.strong_count() > 0);
        alive.push(Arc::downgrade(&segment));
        segment
    }

    /// Returns the file if it may stay open, because few enough files are open.
    fn keep_open(&self, disk: &dyn Disk, path: &Path) -> Option<Box<dyn Source>> {
        let has_room = self.open_files.fetch_add(1, Ordering::Relaxed) < self.max_open_files;
        // If the file is not kept open here, it is opened for each read.
        let file = has_room.then(|| disk.open(path).ok()).flatten();
        if file.is_none() {
            self.open_files.fetch_sub(1, Ordering::Relaxed);
        }
        file
    }

    /// Returns whether more than half of the bytes belong to dead chunks.
    pub(super) fn is_sparse(&self) -> bool {
        let live = self.live_bytes.load(Ordering::Relaxed);
        self.size_bytes() > live.saturating_mul(2).saturating_add(FREE_BYTES)
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Makes the mappings return their memory to the system.
    pub(super) fn release_pages(&self) {
        self.alive().for_each(|segment| segment.mapping.release_pages());
    }

    /// Removes the files' names. Mappings remain until their last user is gone.
    pub(super) fn unlink(&self) {
        self.alive().for_each(|segment| segment.unlink());
    }

    fn alive(&self) -> impl Iterator<Item = Arc<TierSegment>> + use<> {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner).clone();
        alive.into_iter().filter_map(|segment| segment.upgrade())
    }
}

impl TierSegment {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether more than half of the segment belongs to dead chunks.
    pub(crate) fn is_sparse(&self) -> bool {
        self.live_bytes.load(Ordering::Relaxed) < self.size_bytes / 2
    }

    pub(super) fn add_live(&self, place: Place) {
        self.live_bytes.fetch_add(place.record_bytes(), Ordering::Relaxed);
        self.all.live_bytes.fetch_add(place.record_bytes(), Ordering::Relaxed);
    }

    pub(super) fn remove_live(&self, place: Place) {
        self.live_bytes.fetch_sub(place.record_bytes(), Ordering::Relaxed);
        self.all.live_bytes.fetch_sub(place.record_bytes(), Ordering::Relaxed);
    }

    /// Returns the range of a record's content.
    pub(super) fn content(place: Place) -> Range<usize> {
        let start = place.offset as usize + record::HEAD_BYTES;
        start..start + place.length as usize
    }

    /// Returns the offset of a chunk's frame in the content of its record, which ends with the frame.
    pub(super) fn frame_start(place: Place, chunk: &Chunk) -> usize {
        let length = place.length as usize;
        length.saturating_sub(usize::try_from(chunk.size_bytes()).unwrap_or(length))
    }

    /// Returns the file. If the file cannot be opened, because it was removed or too many other files are open, reads
    /// use the mapping instead.
    pub(super) fn open(&self) -> OpenFile<'_> {
        match &self.file {
            Some(file) => OpenFile::Kept(file.as_ref()),
            None => self.disk.open(&self.path).map_or(OpenFile::Kept(&self.mapping), OpenFile::Own),
        }
    }

    fn unlink(&self) {
        match self.disk.remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %self.path.display(), %error, "cannot remove a file of the disk tier");
            }
            _ => {}
        }
    }
}

impl Drop for TierSegment {
    fn drop(&mut self) {
        self.all.size_bytes.fetch_sub(self.size_bytes, Ordering::Relaxed);
        if self.file.is_some() {
            self.all.open_files.fetch_sub(1, Ordering::Relaxed);
        }
        self.unlink();
    }
}
