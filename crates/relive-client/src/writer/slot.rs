//! A chunk on its way: referred to by history cells and by items, filled when the chunk is cut.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use relive_tensor::ChunkStatistic;

/// The stream number of a chunk that was not sent yet. Real streams count from 1.
const NOT_SENT: u64 = 0;

/// One chunk of a writer.
///
/// The atomics need no order among each other: `needed` is a count whose zero is final, and the other two are only
/// touched by the holder of the outbox lock.
pub(crate) struct ChunkSlot {
    key: u64,
    content: OnceLock<Content>,
    /// History cells, columns and queued items that may still want the chunk on the server's side of the stream.
    needed: AtomicU32,
    /// Items, queued or unconfirmed, that refer to the chunk.
    pending_items: AtomicU32,
    /// The stream on which the chunk was sent last.
    sent_on: AtomicU64,
}

/// A chunk that was cut.
struct Content {
    encoded: Bytes,
    rows: u32,
}

impl ChunkSlot {
    pub(crate) fn new(key: u64) -> ChunkSlot {
        ChunkSlot {
            key,
            content: OnceLock::new(),
            needed: AtomicU32::new(0),
            pending_items: AtomicU32::new(0),
            sent_on: AtomicU64::new(NOT_SENT),
        }
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// The encoded `ChunkData`, once the chunk is cut.
    pub(crate) fn encoded(&self) -> Option<&Bytes> {
        self.content.get().map(|content| &content.encoded)
    }

    /// Fills the slot. A chunk is cut once, so a second call changes nothing.
    pub(crate) fn fill(&self, encoded: Bytes, rows: u32) {
        let _ = self.content.set(Content { encoded, rows });
    }

    /// What the tuner of chunk lengths wants to know, once the chunk is cut.
    pub(crate) fn statistic(&self) -> Option<ChunkStatistic> {
        self.content.get().map(|content| ChunkStatistic {
            key: self.key,
            rows: content.rows,
            size_bytes: u64::try_from(content.encoded.len()).unwrap_or(u64::MAX),
        })
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.needed.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn hold(&self) {
        self.needed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.needed.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn has_pending_items(&self) -> bool {
        self.pending_items.load(Ordering::Relaxed) > 0
    }

    /// Counts one more item; whether it is the first.
    pub(crate) fn add_pending_item(&self) -> bool {
        self.pending_items.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Counts one item less; whether it was the last.
    pub(crate) fn remove_pending_item(&self) -> bool {
        self.pending_items.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Notes that the chunk goes out on `stream`; whether it had not before.
    pub(crate) fn mark_sent(&self, stream: u64) -> bool {
        self.sent_on.swap(stream, Ordering::Relaxed) != stream
    }

    pub(crate) fn is_sent_on(&self, stream: u64) -> bool {
        self.sent_on.load(Ordering::Relaxed) == stream
    }
}

impl fmt::Debug for ChunkSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkSlot")
            .field("key", &self.key)
            .field("encoded_bytes", &self.encoded().map(Bytes::len))
            .finish_non_exhaustive()
    }
}

/// A reference that keeps the chunk wanted on the server's side of the stream.
pub(crate) struct ChunkRef(Arc<ChunkSlot>);

impl ChunkRef {
    pub(crate) fn new(slot: Arc<ChunkSlot>) -> ChunkRef {
        slot.hold();
        ChunkRef(slot)
    }

    pub(crate) fn slot(&self) -> &Arc<ChunkSlot> {
        &self.0
    }
}

impl Clone for ChunkRef {
    fn clone(&self) -> ChunkRef {
        ChunkRef::new(Arc::clone(&self.0))
    }
}

impl Drop for ChunkRef {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Deref for ChunkRef {
    type Target = ChunkSlot;

    fn deref(&self) -> &ChunkSlot {
        &self.0
    }
}

impl fmt::Debug for ChunkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_needed_as_long_as_a_reference_lives() {
        let slot = Arc::new(ChunkSlot::new(1));
        let first = ChunkRef::new(Arc::clone(&slot));
        let second = first.clone();
        drop(first);
        assert!(slot.is_needed());
        drop(second);
        assert!(!slot.is_needed());
    }

    #[test]
    fn a_chunk_is_sent_once_per_stream() {
        let slot = ChunkSlot::new(1);
        assert!(slot.mark_sent(1));
        assert!(!slot.mark_sent(1));
        assert!(slot.mark_sent(2));
        assert!(slot.is_sent_on(2));
    }
}
