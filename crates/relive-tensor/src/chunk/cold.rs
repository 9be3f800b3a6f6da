//! The interface of a store on disk for chunks that are not in memory.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;

use super::Chunk;

/// The reason why a disk operation failed.
pub type ColdError = Box<dyn Error + Send + Sync>;

/// A store for chunks that are not in memory. It keeps track of each stored chunk for as long as the chunk is alive.
pub trait ColdStore: Send + Sync {
    /// Moves the frames of chunks [out of memory](Chunk::evict_frame), except those in use. Frames without a
    /// [place](Chunk::set_place) are stored first. Frames that are not in memory are stored again in a better place.
    ///
    /// # Errors
    /// The disk is full or broken. Chunks that are not stored stay in memory.
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError>;

    /// Reads the frames of chunks that are not in memory, all at once, verifies them, and
    /// [restores](Chunk::restore_frame) them to memory. Returns the frames, which stay in memory while they are held.
    /// Ignores chunks that the store does not contain.
    ///
    /// # Errors
    /// A frame cannot be read, or differs from the data that was stored. Other frames may have been restored.
    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, ColdError>;

    /// Returns whether dropped chunks occupy so much space that it is worth storing the remaining chunks again.
    fn is_sparse(&self) -> bool;

    /// Returns whether dropped chunks occupy most of the space around a chunk's place.
    fn is_sparse_around(&self, chunk: &Chunk) -> bool;
}
