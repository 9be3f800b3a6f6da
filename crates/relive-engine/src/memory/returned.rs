//! Chunks that were read back into memory and can be dropped again without being written.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use relive_tensor::Chunk;

use crate::sync::Mutex;

/// The number of chunks that are checked under one lock.
const EXAMINED_PER_LOCK: usize = 256;

/// The chunks in the order in which they were read back. A chunk that has been read since the last pass moves to the
/// end, so the least recently read chunks are dropped first.
///
/// Each entry takes 16 bytes. Entries for chunks that were dropped or have already left memory are skipped.
#[derive(Debug)]
pub(crate) struct Returned(Mutex<ReturnedQueue>);

#[derive(Debug, Default)]
struct ReturnedQueue {
    entries: VecDeque<Entry>,
    size_bytes: u64,
    /// The number of entries at which stale ones are removed.
    full: usize,
}

#[derive(Debug)]
struct Entry {
    chunk: Weak<Chunk>,
    size_bytes: u32,
}

impl Returned {
    pub(super) fn new() -> Self {
        Self(Mutex::new(ReturnedQueue::default()))
    }

    /// Returns the number of bytes of all frames.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.0.lock().size_bytes
    }

    pub(super) fn push(&self, chunks: &[Arc<Chunk>]) {
        let mut queue = self.0.lock();
        chunks.iter().for_each(|chunk| queue.push(chunk));
        if queue.entries.len() > queue.full {
            queue.remove_stale();
        }
    }

    /// Takes up to `bytes` of chunks that have not been read recently and that no reader holds.
    pub(crate) fn take(&self, bytes: u64) -> Vec<Arc<Chunk>> {
        let (mut taken, mut taken_bytes) = (Vec::new(), 0);
        // Makes two passes, because the first one may do no more than clear the marks of recent reads.
        let mut left = 2 * self.0.lock().entries.len();
        while left > 0 && taken_bytes < bytes {
            // These references are dropped after the lock is released, because they may be the last ones.
            let mut passed = Vec::with_capacity(EXAMINED_PER_LOCK);
            let mut queue = self.0.lock();
            for _ in 0..EXAMINED_PER_LOCK.min(left) {
                left -= 1;
                let Some(chunk) = queue.pop() else { continue };
                if !chunk.is_resident() {
                    passed.push(chunk);
                } else if chunk.take_touched() || chunk.is_frame_in_use() {
                    queue.push(&chunk);
                    passed.push(chunk);
                } else {
                    taken_bytes += chunk.size_bytes();
                    taken.push(chunk);
                }
                if taken_bytes >= bytes {
                    break;
                }
            }
            drop(queue);
        }
        taken
    }
}

impl ReturnedQueue {
    fn push(&mut self, chunk: &Arc<Chunk>) {
        let size_bytes = u32::try_from(chunk.size_bytes()).unwrap_or(u32::MAX);
        self.size_bytes += u64::from(size_bytes);
        self.entries.push_back(Entry { chunk: Arc::downgrade(chunk), size_bytes });
    }

    fn pop(&mut self) -> Option<Arc<Chunk>> {
        let entry = self.entries.pop_front()?;
        self.size_bytes -= u64::from(entry.size_bytes);
        entry.chunk.upgrade()
    }

    /// Removes the entries of chunks that were dropped. At least half of the entries are new each time, so the
    /// amortized cost is constant.
    fn remove_stale(&mut self) {
        self.entries.retain(|entry| entry.chunk.strong_count() > 0);
        self.size_bytes = self.entries.iter().map(|entry| u64::from(entry.size_bytes)).sum();
        self.full = (2 * self.entries.len()).max(EXAMINED_PER_LOCK);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use relive_tensor::{Codec, Ledger, ResidenceGuard, SequenceRange, Tensor, encode_chunk};

    use super::*;

    fn chunk(key: u64, ledger: &Arc<Ledger>) -> Arc<Chunk> {
        let row = Tensor::from_slice(&[0_u8; 400], [1, 400]).unwrap();
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        let parts = encode_chunk(key, range, &[row], false, Codec::Raw).unwrap();
        Arc::new(Chunk::new(parts).unwrap().with_ledger(Arc::clone(ledger)))
    }

    fn keys(chunks: &[Arc<Chunk>]) -> Vec<u64> {
        chunks.iter().map(|chunk| chunk.key()).collect()
    }

    #[test]
    fn least_recently_read_chunks_are_spilled_first() {
        let (returned, ledger) = (Returned::new(), Arc::new(Ledger::of_movable_chunks()));
        let chunks: Vec<_> = (0..6).map(|key| chunk(key, &ledger)).collect();
        returned.push(&chunks);
        drop(chunks[0].frame());
        let (residence_guard, _) = ResidenceGuard::of(&chunks[1..2]);
        assert_eq!(keys(&returned.take(800)), [2, 3]);
        assert_eq!((keys(&returned.take(900)), returned.size_bytes()), (vec![4, 5, 0], 400));
        assert!(returned.take(1).is_empty(), "it is at hand");
        drop(residence_guard);
        assert_eq!((keys(&returned.take(u64::MAX)), returned.size_bytes()), (vec![1], 0));
    }

    #[test]
    fn freed_and_spilled_chunks_are_skipped() {
        let (returned, ledger) = (Returned::new(), Arc::new(Ledger::of_movable_chunks()));
        let left = chunk(0, &ledger);
        returned.push(&[Arc::clone(&left), chunk(1, &ledger), Arc::clone(&left)]);
        assert!(left.set_place(Bytes::from(vec![0; 400])) && left.evict_frame());
        assert_eq!((returned.take(u64::MAX).len(), returned.size_bytes()), (0, 0));
        for key in 0..10_000 {
            returned.push(&[chunk(key, &ledger)]);
        }
        assert!(returned.0.lock().entries.len() <= EXAMINED_PER_LOCK + 1, "they are gone");
    }
}
