//! Moves chunks out of memory, and writes the chunks that have no place yet.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use relive_tensor::Chunk;

use super::Tier;
use super::index::Stored;
use super::mapping::Mapping;
use crate::segment::{HEADER_BYTES, Place, SegmentId, header, record};
use crate::storage::write_all;
use crate::{Error, ErrorKind};

/// The number of bytes per write, except for larger chunks. Systems cache and map the bytes of one write as one piece,
/// even if only a part of it is accessed. With writes of megabytes, each access to a mapping would therefore map
/// megabytes.
const WRITE_BYTES: u64 = 64 << 10;

/// The limit on the number of chunks per write. Each chunk has two parts, and systems accept 1,024 parts.
const CHUNKS_AT_ONCE: usize = 512;

impl Tier {
    pub(crate) fn store_all(&self, chunks: &[Arc<Chunk>]) -> Result<(), Error> {
        let has_place = |chunk: &&Arc<Chunk>| chunk.is_stored() && chunk.is_resident();
        let (placed, others): (Vec<_>, Vec<_>) =
            chunks.iter().filter(|chunk| chunk.is_movable()).partition(has_place);
        placed.into_iter().for_each(|chunk| {
            chunk.evict_frame();
        });
        if others.is_empty() {
            return Ok(());
        }
        // The lock is held until the file exists and is mapped, so that the file is found when the tier is closed.
        let lock = self.guard();
        if lock.is_none() {
            let text = format!("{}: the disk tier is closed", self.root.display());
            return Err(Error::plain(ErrorKind::InUse, text));
        }
        self.write_segment(&others)?;
        drop(lock);
        self.note_moved(others.iter().map(|chunk| chunk.size_bytes()).sum());
        Ok(())
    }

    fn write_segment(&self, chunks: &[&Arc<Chunk>]) -> Result<(), Error> {
        let id =
            SegmentId::random().map_err(|source| Error::io("draw a random name in", &self.root, source))?;
        let path = self.path(id);
        let written = self.write(id, &path, chunks).and_then(|placed| {
            let mapping = Mapping::new(&File::open(&path)?)?;
            Ok((placed, mapping))
        });
        let (placed, mapping) = written.map_err(|source| {
            // If the file cannot be removed now, the next tier removes it.
            let _ = self.disk.remove_file(&path);
            Error::io("write", &path, source)
        })?;
        let segment = self.segments.add(path, mapping, Arc::clone(&self.disk));
        for WrittenChunk { chunk, place, leaves } in placed {
            let stored = Stored { segment: Arc::clone(&segment), place };
            chunk.set_place(Bytes::from_owner(self.index.insert(chunk, stored)));
            // A chunk that was only moved to a better place may have been fetched for a reader in the meantime.
            if leaves {
                chunk.evict_frame();
            }
        }
        Ok(())
    }

    fn path(&self, id: SegmentId) -> PathBuf {
        self.root.join(id.file_name())
    }

    fn write<'a>(
        &self,
        id: SegmentId,
        path: &Path,
        chunks: &[&'a Arc<Chunk>],
    ) -> io::Result<Vec<WrittenChunk<'a>>> {
        let mut file = self.disk.create_file(path)?;
        file.write_all(&header(id))?;
        let mut offset = HEADER_BYTES as u64;
        let mut placed = Vec::with_capacity(chunks.len());
        let mut heads = Vec::new();
        for chunks in groups(chunks) {
            heads.clear();
            let frames = self.frames(chunks);
            let mut ends = Vec::with_capacity(chunks.len());
            for Frame { chunk, bytes, leaves } in &frames {
                let head = record::put_head(chunk, bytes, &mut heads);
                ends.push(heads.len());
                let at =
                    u32::try_from(offset).map_err(|_| io::Error::other("a step is larger than 4 GiB"))?;
                let place = Place { segment: id, offset: at, length: head.length, crc: head.crc };
                offset = place.end();
                placed.push(WrittenChunk { chunk, place, leaves: *leaves });
            }
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let heads = starts.zip(&ends).map(|(start, &end)| heads.get(start..end).unwrap_or_default());
            let parts =
                heads.zip(&frames).flat_map(|(head, frame)| [IoSlice::new(head), IoSlice::new(&frame.bytes)]);
            write_all(file.as_mut(), &mut parts.collect::<Vec<_>>())?;
        }
        Ok(placed)
    }

    /// Returns the bytes to write for chunks. Chunks outside memory are read and checked like fetched ones, because
    /// data that the disk has corrupted must not be written with a new checksum. A damaged chunk stays at its place, so
    /// that its reader receives the error.
    fn frames<'a>(&self, chunks: &[&'a Arc<Chunk>]) -> Vec<Frame<'a>> {
        let frame = |chunk: &&'a Arc<Chunk>| {
            let leaves = !chunk.is_stored();
            if let Some(bytes) = chunk.frame_in_memory() {
                return Some(Frame { chunk, bytes, leaves });
            }
            let read = self.index.get(chunk).map(|stored| self.read(chunk, &stored))?;
            let bytes =
                read.inspect_err(|error| tracing::error!(%error, "cannot move a chunk to disk")).ok()?;
            Some(Frame { chunk, bytes, leaves })
        };
        chunks.iter().filter_map(frame).collect()
    }
}

/// The bytes to write for a chunk.
struct Frame<'a> {
    chunk: &'a Arc<Chunk>,
    bytes: Bytes,
    leaves: bool,
}

/// A written chunk.
struct WrittenChunk<'a> {
    chunk: &'a Arc<Chunk>,
    place: Place,
    /// Whether the chunk leaves memory.
    leaves: bool,
}

/// Returns chunks that are written together.
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
