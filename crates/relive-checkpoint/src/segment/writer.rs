//! Writes chunks to as many segments as they need.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use relive_tensor::{Chunk, ChunkBytes};

use super::seal::Sealer;
use super::{HEADER_BYTES, Place, SegmentId, header, record};
use crate::Error;
use crate::storage::{Storage, Upload};

/// The number of pending bytes at which chunks are written, so that small chunks do not each need a call. This many
/// bytes also stay in the processor's cache between the computation of their checksum and the copy.
const BATCH_BYTES: u64 = 1 << 20;

/// The limit on the number of chunks that are written together. Each chunk has two parts, and systems accept 1,024
/// parts.
const BATCH_CHUNKS: usize = 512;

/// A segment that is being or has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenSegment {
    pub(crate) id: SegmentId,
    /// The size of the file.
    pub(crate) size_bytes: u64,
}

/// A chunk that is waiting to be written.
struct PendingChunk {
    chunk: Arc<Chunk>,
    /// The frame, if it must not be read from the chunk.
    frame: Option<Bytes>,
}

impl PendingChunk {
    fn frame(&self) -> ChunkBytes<'_> {
        self.frame.as_deref().map_or_else(|| self.chunk.frame(), ChunkBytes::from)
    }
}

/// Writes chunks to segments, in order. While one segment is being made durable, the next one is written. If the writer
/// is dropped before it is [finished](Self::finish), unreferenced segments may remain: [`Self::written`] lists them.
pub(crate) struct SegmentWriter {
    storage: Arc<dyn Storage>,
    /// The size from which a segment accepts no more chunks.
    target_bytes: u64,
    current: Option<Box<dyn Upload>>,
    /// All segments. If there is a current segment, it is the last one.
    written: Vec<WrittenSegment>,
    pending: Vec<PendingChunk>,
    pending_bytes: u64,
    /// Heads of the pending records, in reused memory.
    heads: Vec<u8>,
    sealer: Sealer,
}

impl SegmentWriter {
    pub(crate) fn new(storage: Arc<dyn Storage>, target_bytes: u64) -> Self {
        Self {
            storage,
            target_bytes,
            current: None,
            written: Vec::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            heads: Vec::new(),
            sealer: Sealer::new(),
        }
    }

    /// Queues a chunk for writing, with `frame` as its frame, or with its own. `placed` receives the places of the
    /// chunks that have been written, in order.
    pub(crate) fn push(
        &mut self,
        chunk: Arc<Chunk>,
        frame: Option<Bytes>,
        placed: impl FnMut(&Arc<Chunk>, Place),
    ) -> Result<(), Error> {
        self.pending_bytes += record::content_bytes(&chunk);
        self.pending.push(PendingChunk { chunk, frame });
        match self.pending_bytes >= BATCH_BYTES || self.pending.len() >= BATCH_CHUNKS {
            true => self.flush(placed),
            false => Ok(()),
        }
    }

    /// Writes the queued chunks.
    pub(crate) fn flush(&mut self, mut placed: impl FnMut(&Arc<Chunk>, Place)) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.open()?;
        let (Some(upload), Some(segment)) = (&mut self.current, self.written.last_mut()) else {
            return Ok(());
        };
        let frames: Vec<ChunkBytes<'_>> = self.pending.iter().map(PendingChunk::frame).collect();
        let spans = put_heads(&self.pending, &frames, &mut self.heads);
        let heads = spans.iter().map(|(span, _)| self.heads.get(span.clone()).unwrap_or_default());
        let parts = heads.zip(&frames).flat_map(|(head, frame)| [IoSlice::new(head), IoSlice::new(frame)]);
        let written = upload.write(&mut parts.collect::<Vec<_>>());
        written.map_err(|source| broken(self.storage.as_ref(), segment.id, source))?;
        for ((_, head), PendingChunk { chunk, .. }) in spans.iter().zip(&self.pending) {
            let offset = u32::try_from(segment.size_bytes)
                .expect("every record begins within the target size plus one batch");
            let place = Place { segment: segment.id, offset, length: head.length, crc: head.crc };
            segment.size_bytes = place.end();
            placed(chunk, place);
        }
        drop(frames);
        self.pending.clear();
        self.pending_bytes = 0;
        if segment.size_bytes >= self.target_bytes { self.seal() } else { Ok(()) }
    }

    /// Returns the segments started so far.
    pub(crate) fn written(&self) -> &[WrittenSegment] {
        &self.written
    }

    /// Returns the size of a segment that this writer started.
    pub(crate) fn size_of(&self, id: SegmentId) -> Option<u64> {
        self.written.iter().find(|segment| segment.id == id).map(|segment| segment.size_bytes)
    }

    /// Makes all segments durable. Chunks that have not been [flushed](Self::flush) are not included.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.seal()?;
        self.sealer.finish()
    }

    fn open(&mut self) -> Result<(), Error> {
        if self.current.is_some() {
            return Ok(());
        }
        let storage = self.storage.as_ref();
        let id = SegmentId::random();
        let id =
            id.map_err(|source| Error::storage("draw a random name in", &storage.describe(""), source))?;
        let begun = storage.create(&id.file_name()).and_then(|mut upload| {
            upload.write(&mut [IoSlice::new(&header(id))])?;
            Ok(upload)
        });
        self.current = Some(begun.map_err(|source| broken(storage, id, source))?);
        self.written.push(WrittenSegment { id, size_bytes: HEADER_BYTES as u64 });
        Ok(())
    }

    fn seal(&mut self) -> Result<(), Error> {
        let (Some(upload), Some(segment)) = (self.current.take(), self.written.last()) else { return Ok(()) };
        self.sealer.seal(upload, self.storage.describe(&segment.id.file_name()))
    }
}

fn put_heads(
    chunks: &[PendingChunk],
    frames: &[ChunkBytes<'_>],
    heads: &mut Vec<u8>,
) -> Vec<(Range<usize>, record::Head)> {
    heads.clear();
    let put = |(PendingChunk { chunk, .. }, frame): (&PendingChunk, &ChunkBytes<'_>)| {
        let start = heads.len();
        let head = record::put_head(chunk, frame, heads);
        (start..heads.len(), head)
    };
    chunks.iter().zip(frames).map(put).collect()
}

fn broken(storage: &dyn Storage, id: SegmentId, source: std::io::Error) -> Error {
    Error::storage("write", &storage.describe(&id.file_name()), source)
}
