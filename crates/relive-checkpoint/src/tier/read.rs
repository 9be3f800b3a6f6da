//! Reads chunks back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes};
use relive_tensor::Chunk;

use super::Tier;
use super::index::Stored;
use super::segment::{OpenFile, TierSegment};
use crate::Error;

/// The number of moved bytes after which the mappings return their memory to the system. The mappings use little
/// memory, because only readers of unfetched chunks access them.
const MOVED_BYTES: u64 = 256 << 20;

/// A chunk that has to wait for the disk.
struct PendingChunk<'a> {
    chunk: &'a Arc<Chunk>,
    stored: &'a Stored,
    content: Vec<u8>,
}

impl Tier {
    /// Fetches chunks into memory. Chunks in the system's cache are read while the disk reads the rest.
    pub(crate) fn fetch_all(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, Error> {
        let places = self.index.places(chunks);
        let mut frames = Vec::with_capacity(places.len());
        let mut waiting = Vec::new();
        for (chunk, stored) in &places {
            let (file, mut content) = (stored.segment.open(), buffer(stored));
            if file.read_if_near(&mut content, stored.offset()) {
                frames.extend(restore_frame(chunk, stored, content)?);
            } else {
                file.read_ahead(stored.offset()..stored.place.end());
                waiting.push(PendingChunk { chunk, stored, content });
            }
        }
        for PendingChunk { chunk, stored, mut content } in waiting {
            read_into(&stored.segment.open(), chunk, stored, &mut content)?;
            frames.extend(restore_frame(chunk, stored, content)?);
        }
        self.note_moved(frames.iter().map(|frame| frame.len() as u64).sum());
        Ok(frames)
    }

    /// Returns the frame of a movable chunk. A frame in memory stays there while the result is held; the disk's copy is
    /// then not needed. Otherwise, the frame is read from its place, which must still contain the bytes that were
    /// written. Returns `None` if the chunk is neither movable nor stored here.
    pub(crate) fn checked_frame(&self, chunk: &Arc<Chunk>) -> Result<Option<Bytes>, Error> {
        if let Some(frame) = chunk.frame_in_memory() {
            return Ok(Some(frame));
        }
        self.index.get(chunk).map(|stored| self.read(chunk, &stored)).transpose()
    }

    /// Reads a chunk's frame without changing the chunk.
    pub(super) fn read(&self, chunk: &Arc<Chunk>, stored: &Stored) -> Result<Bytes, Error> {
        let mut content = buffer(stored);
        read_into(&stored.segment.open(), chunk, stored, &mut content)?;
        frame(chunk, stored, content)
    }

    /// Counts moved bytes. After every [`MOVED_BYTES`], the mappings return the pages of recent accesses to the system.
    pub(super) fn note_moved(&self, bytes: u64) {
        if self.moved_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= MOVED_BYTES {
            self.moved_bytes.store(0, Ordering::Relaxed);
            self.segments.release_pages();
        }
    }
}

fn buffer(stored: &Stored) -> Vec<u8> {
    vec![0; stored.place.length as usize]
}

fn read_into(
    file: &OpenFile<'_>,
    chunk: &Arc<Chunk>,
    stored: &Stored,
    content: &mut [u8],
) -> Result<(), Error> {
    let path = &stored.segment.path;
    file.read_exact_at(content, stored.offset()).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            let reason = format!("the file ends inside the chunk {}", chunk.key());
            Error::damaged(path, None, reason)
        }
        _ => Error::io("read", path, error),
    })
}

fn restore_frame(chunk: &Arc<Chunk>, stored: &Stored, content: Vec<u8>) -> Result<Option<Bytes>, Error> {
    Ok(chunk.restore_frame(&frame(chunk, stored, content)?))
}

/// Returns the frame in a record's content, if the content matches its checksum.
fn frame(chunk: &Arc<Chunk>, stored: &Stored, content: Vec<u8>) -> Result<Bytes, Error> {
    if crc32c::crc32c(&content) != stored.place.crc {
        let place = stored.place.offset;
        let reason = format!("the chunk {} at byte {place} is corrupt", chunk.key());
        return Err(Error::damaged(&stored.segment.path, None, reason));
    }
    let mut frame = Bytes::from(content);
    frame.advance(TierSegment::frame_start(stored.place, chunk));
    Ok(frame)
}
