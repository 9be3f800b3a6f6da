//! A slot for a chunk. History cells and items refer to the slot, which is filled when the chunk is cut.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use relive_connection::{Error, ErrorKind, Result};
use relive_tensor::{Chunk, ChunkStatistic, Chunker, Tensor};

use super::encode::EncodedChunk;

/// The stream number of a chunk that has not been sent yet. Real streams are numbered from 1.
const NOT_SENT: u64 = 0;

/// One chunk of a writer.
///
/// The atomics need no ordering relative to each other: once `needed` is zero, it stays zero, and only the holder of
/// the outbox lock accesses the other atomics.
pub(crate) struct ChunkSlot {
    key: u64,
    content: OnceLock<Content>,
    /// Holds the rows until the chunk is cut. When it is cut, the chunker stays locked from before the rows leave it
    /// until the slot is filled.
    chunker: Arc<Mutex<Chunker>>,
    /// The number of history cells, columns and queued items that may still require the server to hold the chunk for
    /// the stream.
    needed: AtomicU32,
    /// The number of items, queued or unconfirmed, that refer to the chunk.
    pending_items: AtomicU32,
    /// The stream on which the chunk was most recently sent.
    sent_on: AtomicU64,
    /// The number of bytes that the outbox currently counts for the chunk.
    counted_bytes: AtomicUsize,
}

/// A chunk that was cut.
struct Content {
    encoded: EncodedChunk,
    rows: u32,
}

impl ChunkSlot {
    pub(crate) fn new(key: u64, chunker: Arc<Mutex<Chunker>>) -> ChunkSlot {
        ChunkSlot {
            key,
            content: OnceLock::new(),
            chunker,
            needed: AtomicU32::new(0),
            pending_items: AtomicU32::new(0),
            sent_on: AtomicU64::new(NOT_SENT),
            counted_bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the number of bytes to count for the chunk, unless they have already been counted: the slot of a cut
    /// chunk is filled before the outbox is notified, and an item may count the chunk in between.
    pub(crate) fn count_bytes(&self) -> usize {
        if self.counted_bytes.load(Ordering::Relaxed) > 0 {
            return 0;
        }
        let bytes = self.size_bytes();
        self.counted_bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// Returns the number of bytes that were counted for the chunk, and stops counting them.
    pub(crate) fn uncount_bytes(&self) -> usize {
        self.counted_bytes.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// Returns whether the chunk has been cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.content.get().is_some()
    }

    /// Returns the encoded `ChunkData`, once the chunk has been cut.
    pub(crate) fn message(&self) -> Option<&Bytes> {
        match &self.content.get()?.encoded {
            EncodedChunk::Message(message) => Some(message),
            EncodedChunk::Shared(_) => None,
        }
    }

    /// Returns the chunk that is shared with tables in this process, once it has been cut.
    pub(crate) fn shared(&self) -> Option<&Arc<Chunk>> {
        match &self.content.get()?.encoded {
            EncodedChunk::Message(_) => None,
            EncodedChunk::Shared(chunk) => Some(chunk),
        }
    }

    /// Returns the number of encoded bytes, or 0 before the chunk is cut.
    pub(crate) fn size_bytes(&self) -> usize {
        self.content.get().map_or(0, |content| content.encoded.size_bytes())
    }

    /// Fills the slot. A chunk is cut only once, so a second call changes nothing.
    pub(crate) fn fill(&self, encoded: EncodedChunk, rows: u32) {
        let _ = self.content.set(Content { encoded, rows });
    }

    /// Returns the statistic for the tuner of chunk lengths, once the chunk has been cut.
    pub(crate) fn statistic(&self) -> Option<ChunkStatistic> {
        self.content.get().map(|content| ChunkStatistic {
            key: self.key,
            rows: content.rows,
            size_bytes: u64::try_from(content.encoded.size_bytes()).unwrap_or(u64::MAX),
        })
    }

    /// Copies rows out of a tensor of the chunk, whether or not the chunk has been cut.
    fn rows(&self, index: u32, offset: u32, rows: u32) -> Result<Tensor> {
        if let Some(content) = self.content.get() {
            return content.rows(index, offset, rows);
        }
        let waiting = self.chunker.lock().pending_rows(self.key, index, offset, rows);
        match (waiting, self.content.get()) {
            (Some(waiting), _) => waiting.map_err(|error| lost(&error)),
            (None, Some(content)) => content.rows(index, offset, rows),
            (None, None) => Err(Error::new(ErrorKind::DataLoss, "its chunk could not be created")),
        }
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.needed.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn hold(&self) {
        self.needed.fetch_add(1, Ordering::Relaxed);
    }

    /// Increments `needed` unless it is zero, since zero is final.
    fn hold_if_needed(&self) -> bool {
        let more = |needed: u32| (needed > 0).then_some(needed + 1);
        self.needed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn release(&self) {
        self.needed.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn has_pending_items(&self) -> bool {
        self.pending_items.load(Ordering::Relaxed) > 0
    }

    /// Counts one more item. Returns whether this is the chunk's first item.
    pub(crate) fn add_pending_item(&self) -> bool {
        self.pending_items.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Counts one item fewer. Returns whether this was the chunk's last item.
    pub(crate) fn remove_pending_item(&self) -> bool {
        self.pending_items.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Records that the chunk is sent on `stream`. Returns whether this is the first time.
    pub(crate) fn mark_sent(&self, stream: u64) -> bool {
        self.sent_on.swap(stream, Ordering::Relaxed) != stream
    }

    pub(crate) fn is_sent_on(&self, stream: u64) -> bool {
        self.sent_on.load(Ordering::Relaxed) == stream
    }
}

impl Content {
    fn rows(&self, index: u32, offset: u32, rows: u32) -> Result<Tensor> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let column = match &self.encoded {
            EncodedChunk::Shared(chunk) => chunk.decode_column(index).map_err(|error| lost(&error)),
            EncodedChunk::Message(message) => {
                let chunk = relive_wire::chunk::decode(message).map_err(|error| lost(&error))?;
                chunk.decode_column(index).map_err(|error| lost(&error))
            }
        };
        column?.rows(offset..offset.saturating_add(rows)).map_err(|error| lost(&error))
    }
}

fn lost(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::DataLoss, error.to_string())
}

impl fmt::Debug for ChunkSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkSlot")
            .field("key", &self.key)
            .field("encoded_bytes", &self.size_bytes())
            .finish_non_exhaustive()
    }
}

/// A reference to a tensor of a chunk. While it exists, the server keeps the chunk for the stream.
pub(crate) struct ChunkRef {
    slot: Arc<ChunkSlot>,
    index: u32,
}

impl ChunkRef {
    pub(crate) fn new(slot: Arc<ChunkSlot>, index: u32) -> ChunkRef {
        slot.hold();
        ChunkRef { slot, index }
    }

    /// Returns a reference to a chunk that is still needed.
    pub(crate) fn upgrade(slot: &Weak<ChunkSlot>, index: u32) -> Option<ChunkRef> {
        slot.upgrade().filter(|slot| slot.hold_if_needed()).map(|slot| ChunkRef { slot, index })
    }

    pub(crate) fn slot(&self) -> &Arc<ChunkSlot> {
        &self.slot
    }

    /// Returns the index of the tensor in the chunk.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns whether both references refer to the same tensor of the same chunk.
    pub(crate) fn is(&self, other: &ChunkRef) -> bool {
        Arc::ptr_eq(&self.slot, &other.slot) && self.index == other.index
    }

    /// Copies rows out of the tensor, whether or not its chunk has been cut.
    pub(crate) fn rows(&self, offset: u32, rows: u32) -> Result<Tensor> {
        self.slot.rows(self.index, offset, rows)
    }
}

impl Clone for ChunkRef {
    fn clone(&self) -> ChunkRef {
        ChunkRef::new(Arc::clone(&self.slot), self.index)
    }
}

impl Drop for ChunkRef {
    fn drop(&mut self) {
        self.slot.release();
    }
}

impl Deref for ChunkRef {
    type Target = ChunkSlot;

    fn deref(&self) -> &ChunkSlot {
        &self.slot
    }
}

impl fmt::Debug for ChunkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use relive_tensor::ChunkLength;

    use super::*;

    impl ChunkSlot {
        /// Returns a slot whose chunk never has any rows.
        pub(crate) fn unfilled(key: u64) -> ChunkSlot {
            let length = ChunkLength::constant(1, 1).expect("both are 1");
            let chunker = Chunker::new(length, false).expect("the length is valid");
            ChunkSlot::new(key, Arc::new(Mutex::new(chunker)))
        }

        /// Fills the slot with a chunk of one row, as a message.
        pub(crate) fn fill_with_message(&self, message: Bytes) {
            self.fill(EncodedChunk::Message(message), 1);
        }
    }

    #[test]
    fn a_slot_is_needed_while_a_reference_exists() {
        let slot = Arc::new(ChunkSlot::unfilled(1));
        let first = ChunkRef::new(Arc::clone(&slot), 0);
        let second = first.clone();
        drop(first);
        assert!(slot.is_needed());
        let weak = Arc::downgrade(&slot);
        let third = ChunkRef::upgrade(&weak, 0).unwrap();
        drop(second);
        assert!(slot.is_needed() && third.is(&third.clone()));
        drop(third);
        assert!(!slot.is_needed());
        assert!(ChunkRef::upgrade(&weak, 0).is_none());
    }

    #[test]
    fn a_chunk_is_sent_once_per_stream() {
        let slot = ChunkSlot::unfilled(1);
        assert!(slot.mark_sent(1));
        assert!(!slot.mark_sent(1));
        assert!(slot.mark_sent(2));
        assert!(slot.is_sent_on(2));
    }
}
