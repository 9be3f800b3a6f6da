//! Storing chunks and bringing them near.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use relive_tensor::{Chunk, ColdError, ColdStore};

use super::index::{Index, Stored};
use super::mapping::Mapping;
use super::segment::{Segments, TierSegment};
use crate::disk::{Disk, RealDisk};
use crate::segment::{self, HEADER_BYTES, Place, SegmentId, header, record};
use crate::storage::{LocalStorage, Storage, write_all};
use crate::{Error, ErrorKind, names};

/// The folder below the one that was named: so that it may be that of the checkpoints.
const FOLDER: &str = "spilled";

/// Bytes of mappings that are looked at before their memory is given back. Systems bring some more than is asked for.
const LOOKED_AT_BYTES: u64 = 48 << 20;

/// Bytes of one write, but for larger chunks. Systems keep what is written at once in one piece, and map it as one piece,
/// however little of it is looked at: with writes of megabytes, a batch would map the whole tier.
const WRITE_BYTES: u64 = 64 << 10;

/// Most chunks of one write; each has two parts, and systems take 1,024.
const CHUNKS_AT_ONCE: usize = 512;

/// The disk tier's files, in a folder of their own.
///
/// Chunks of a [ledger of movable chunks](relive_tensor::Ledger::of_movable_chunks) are [stored](ColdStore::store) in files
/// that are mapped into memory, and their frames moved there; the system reads them when they are looked at. Memory of the
/// mappings is given back time and again, so that it does not add up.
///
/// The folder `spilled` below the one given belongs to one process at a time. What an earlier one has left there is removed.
pub struct Tier {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    index: Arc<Index>,
    segments: Arc<Segments>,
    looked_at_bytes: AtomicU64,
    /// `None` once it is closed.
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Tier {
    /// The tier below `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// Another process uses the folder; it cannot be written to.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::on(Arc::new(RealDisk), folder.as_ref())
    }

    pub(super) fn on(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self, Error> {
        let root = folder.join(FOLDER);
        let storage = LocalStorage::on(Arc::clone(&disk), &root);
        refuse_checkpoints(&storage)?;
        let lock = storage.lock().map_err(|error| match error.kind() {
            ErrorKind::InUse => {
                let text =
                    format!("{}: another server's disk tier is here; use another folder", root.display());
                Error::plain(ErrorKind::InUse, text)
            }
            _ => error,
        })?;
        remove_leftovers(&storage)?;
        let files = root.join(segment::FOLDER);
        disk.create_folders(&files).map_err(|source| Error::io("make the folder", &files, source))?;
        let (index, segments) = (Arc::default(), Arc::default());
        Ok(Self {
            root,
            disk,
            index,
            segments,
            looked_at_bytes: AtomicU64::new(0),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Bytes of all files.
    pub fn size_bytes(&self) -> u64 {
        self.segments.size_bytes()
    }

    /// Removes the files at the end of a server, and lets others have the folder. Chunks that somebody still holds stay as
    /// they are; no others can be stored.
    pub fn close(&self) {
        let lock = self.guard().take();
        self.segments.unlink();
        drop(lock);
    }

    fn guard(&self) -> MutexGuard<'_, Option<Box<dyn Send + Sync>>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Where a chunk lies, if it does.
    pub(crate) fn place_of(&self, chunk: &Chunk) -> Option<(Arc<TierSegment>, Place)> {
        self.index.get(chunk).map(|Stored { segment, place }| (segment, place))
    }

    pub(crate) fn store_all(&self, chunks: &[Arc<Chunk>]) -> Result<(), Error> {
        let chunks: Vec<&Arc<Chunk>> = chunks.iter().filter(|chunk| chunk.is_movable()).collect();
        if chunks.is_empty() {
            return Ok(());
        }
        // Held until the file is there and mapped, so that closing finds it.
        let lock = self.guard();
        if lock.is_none() {
            let text = format!("{}: the disk tier is closed", self.root.display());
            return Err(Error::plain(ErrorKind::InUse, text));
        }
        let id =
            SegmentId::random().map_err(|source| Error::io("draw a random name in", &self.root, source))?;
        let path = self.path(id);
        let written = self.write(id, &path, &chunks).and_then(|places| {
            let mapping = Mapping::new(&File::open(&path)?)?;
            Ok((places, mapping))
        });
        let (places, mapping) = written.map_err(|source| {
            // What is left, if it cannot be removed, the next tier removes.
            let _ = self.disk.remove_file(&path);
            Error::io("write", &path, source)
        })?;
        let segment = self.segments.add(path, mapping, Arc::clone(&self.disk));
        for (chunk, place) in chunks.into_iter().zip(places) {
            let stored = Stored { segment: Arc::clone(&segment), place };
            let frame = self.index.insert(chunk, stored);
            drop(chunk.move_frame(Bytes::from_owner(frame)));
        }
        drop(lock);
        Ok(())
    }

    pub(crate) fn fetch_all(&self, chunks: &[Arc<Chunk>]) -> Result<(), Error> {
        let places = self.index.places(chunks);
        for (_, Stored { segment, place }) in &places {
            segment.mapping.will_need(TierSegment::content(*place));
        }
        for (key, Stored { segment, place }) in &places {
            if !segment.is_whole(*place) {
                let reason = format!("the chunk {key} at byte {} is not what was written", place.offset);
                return Err(Error::damaged(&segment.path, None, reason));
            }
        }
        self.note_looked_at(&places);
        Ok(())
    }

    fn path(&self, id: SegmentId) -> PathBuf {
        self.root.join(id.file_name())
    }

    fn write(&self, id: SegmentId, path: &Path, chunks: &[&Arc<Chunk>]) -> io::Result<Vec<Place>> {
        let mut file = self.disk.create_file(path)?;
        file.write_all(&header(id))?;
        let mut offset = HEADER_BYTES as u64;
        let mut places = Vec::with_capacity(chunks.len());
        let mut heads = Vec::new();
        for chunks in groups(chunks) {
            heads.clear();
            let frames: Vec<_> = chunks.iter().map(|chunk| chunk.frame()).collect();
            let mut ends = Vec::with_capacity(chunks.len());
            for (chunk, frame) in chunks.iter().zip(&frames) {
                let head = record::put_head(chunk, frame, &mut heads);
                ends.push(heads.len());
                let at = u32::try_from(offset).map_err(|_| io::Error::other("a step has more than 4 GiB"))?;
                let place = Place { segment: id, offset: at, length: head.length, crc: head.crc };
                offset = place.end();
                places.push(place);
            }
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let heads = starts.zip(&ends).map(|(start, &end)| heads.get(start..end).unwrap_or_default());
            let parts =
                heads.zip(&frames).flat_map(|(head, frame)| [IoSlice::new(head), IoSlice::new(frame)]);
            write_all(file.as_mut(), &mut parts.collect::<Vec<_>>())?;
        }
        Ok(places)
    }

    fn note_looked_at(&self, places: &[(u64, Stored)]) {
        let bytes: u64 = places.iter().map(|(_, stored)| u64::from(stored.place.length)).sum();
        if self.looked_at_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= LOOKED_AT_BYTES {
            self.looked_at_bytes.store(0, Ordering::Relaxed);
            self.segments.let_go();
        }
    }
}

/// Chunks that are written together.
fn groups<'a, 'c>(mut chunks: &'a [&'c Arc<Chunk>]) -> impl Iterator<Item = &'a [&'c Arc<Chunk>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |chunk: &&&Arc<Chunk>| {
            bytes += chunk.size_bytes();
            bytes <= WRITE_BYTES
        };
        let fitting = chunks.iter().take(CHUNKS_AT_ONCE).take_while(fits).count();
        let (group, rest) = chunks.split_at(fitting.max(1).min(chunks.len()));
        chunks = rest;
        (!group.is_empty()).then_some(group)
    })
}

impl ColdStore for Tier {
    /// Chunks whose frames cannot be moved are passed over.
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError> {
        Ok(self.store_all(chunks)?)
    }

    /// The error names chunk, file and place.
    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError> {
        Ok(self.fetch_all(chunks)?)
    }

    fn is_sparse(&self) -> bool {
        self.segments.is_sparse()
    }

    fn is_sparse_around(&self, chunk: &Chunk) -> bool {
        self.index.get(chunk).is_some_and(|stored| stored.segment.is_sparse())
    }
}

/// Leftovers look like the segments of checkpoints, which must not be taken for them.
fn refuse_checkpoints(storage: &dyn Storage) -> Result<(), Error> {
    let root = storage.describe("");
    let files = storage.list("").map_err(|source| Error::storage("list", &root, source))?;
    match files.iter().find(|file| names::checkpoint_number(&file.name).is_some()) {
        Some(file) => {
            let text = format!(
                "{root} has checkpoints ({}) and cannot be a disk tier's; use another folder",
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
