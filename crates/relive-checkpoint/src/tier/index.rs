//! The places of chunks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relive_tensor::Chunk;

use super::segment::TierSegment;
use crate::segment::Place;

/// The places of chunks by address. A chunk with a place stays in the index for as long as it is alive.
#[derive(Default)]
pub(crate) struct Index(Mutex<HashMap<usize, Stored>>);

/// The place of a chunk.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) segment: Arc<TierSegment>,
    pub(crate) place: Place,
}

impl Stored {
    /// Returns the offset of the record's content in the file.
    pub(super) fn offset(&self) -> u64 {
        TierSegment::content(self.place).start as u64
    }
}

/// A chunk's frame in a segment. While this value is alive, its place stays in the index, and its segment exists.
pub(super) struct StoredFrame {
    index: Arc<Index>,
    address: usize,
    stored: Stored,
    frame: std::ops::Range<usize>,
}

impl Index {
    pub(crate) fn get(&self, chunk: &Chunk) -> Option<Stored> {
        self.lock().get(&address(chunk)).cloned()
    }

    /// Returns the places of those chunks that have one.
    pub(super) fn places<'a>(&self, chunks: &'a [Arc<Chunk>]) -> Vec<(&'a Arc<Chunk>, Stored)> {
        let index = self.lock();
        chunks.iter().filter_map(|chunk| Some((chunk, index.get(&address(chunk))?.clone()))).collect()
    }

    /// Assigns the place `stored` to a chunk. Returns the chunk's frame at that place.
    pub(super) fn insert(self: &Arc<Self>, chunk: &Chunk, stored: Stored) -> StoredFrame {
        let content = TierSegment::content(stored.place);
        let start = content.start + TierSegment::frame_start(stored.place, chunk);
        stored.segment.add_live(stored.place);
        let address = address(chunk);
        self.lock().insert(address, stored.clone());
        StoredFrame { index: Arc::clone(self), address, stored, frame: start..content.end }
    }

    /// No code that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Stored>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(chunk: &Chunk) -> usize {
    std::ptr::from_ref(chunk).addr()
}

impl AsRef<[u8]> for StoredFrame {
    fn as_ref(&self) -> &[u8] {
        self.stored.segment.mapping.bytes().get(self.frame.clone()).unwrap_or_default()
    }
}

impl Drop for StoredFrame {
    fn drop(&mut self) {
        self.stored.segment.remove_live(self.stored.place);
        // The frame's segment is dropped after the lock is released. A chunk with a newer place, or another chunk at
        // the same address, keeps its entry.
        let mut index = self.index.lock();
        if let Entry::Occupied(entry) = index.entry(self.address)
            && entry.get().place == self.stored.place
        {
            entry.remove();
        }
    }
}
