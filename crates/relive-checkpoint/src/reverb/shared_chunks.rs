//! Chunks shared by several items, each of which is written once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use relive_tensor::Chunk;

/// The chunks so far, by the keys under which they are written.
///
/// A chunk keeps its own key, unless two chunks with different contents have the same key. Keys are drawn at random, so
/// this happens only with clients that repeat random numbers, such as copies of one process. Even in that case, it must
/// be possible to load the checkpoint.
#[derive(Default)]
pub(super) struct SharedChunks<'a> {
    by_key: HashMap<u64, &'a Chunk>,
    /// Chunks with a replacement key, by address.
    renamed: HashMap<*const Chunk, u64>,
}

impl<'a> SharedChunks<'a> {
    /// Returns the key of a chunk at its first occurrence, when it must be written.
    pub(super) fn insert(&mut self, chunk: &'a Arc<Chunk>) -> Option<u64> {
        match self.by_key.entry(chunk.key()) {
            Entry::Vacant(vacant) => {
                vacant.insert(chunk);
                return Some(chunk.key());
            }
            Entry::Occupied(met) if is_same(met.get(), chunk) => return None,
            Entry::Occupied(_) => {}
        }
        if self.renamed.contains_key(&Arc::as_ptr(chunk)) {
            return None;
        }
        let mut key = chunk.key();
        while self.by_key.contains_key(&key) {
            key = key.wrapping_add(1);
        }
        self.by_key.insert(key, chunk);
        self.renamed.insert(Arc::as_ptr(chunk), key);
        Some(key)
    }

    /// Returns the key of a chunk that has occurred before.
    pub(super) fn key_of(&self, chunk: &Arc<Chunk>) -> u64 {
        if self.renamed.is_empty() {
            return chunk.key();
        }
        self.renamed.get(&Arc::as_ptr(chunk)).copied().unwrap_or(chunk.key())
    }
}

/// Returns whether the two chunks are the same, possibly because their writer sent the chunk twice.
fn is_same(one: &Chunk, other: &Chunk) -> bool {
    std::ptr::eq(one, other)
        || (one.range() == other.range()
            && one.is_delta_encoded() == other.is_delta_encoded()
            && one.columns() == other.columns()
            && one.frame() == other.frame())
}
