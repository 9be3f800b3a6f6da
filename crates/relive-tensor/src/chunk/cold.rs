//! The interface of a disk that stores chunks while they are not in memory.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;

use super::Chunk;

/// Why an operation of the disk failed.
pub type ColdError = Box<dyn Error + Send + Sync>;

/// A store for chunks that are not in memory. It knows each chunk that it has stored while the chunk is alive.
pub trait ColdStore: Send + Sync {
    /// Makes the frames of chunks [leave memory](Chunk::leave_memory), except those in use. Frames without a
    /// [place](Chunk::set_place) are stored first. Frames that are not in memory are stored again in a better place.
    ///
    /// # Errors
    /// The disk is full or broken. Chunks that are not stored stay in memory.
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError>;

    /// Reads the frames of chunks that are not in memory, all at once, verifies them and makes them [come
    /// back](Chunk::come_back). Returns the frames, which stay in memory while they are held. Ignores chunks that it
    /// does not have.
    ///
    /// # Errors
    /// A frame cannot be read or differs from what was stored. Others may have come back.
    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, ColdError>;

    /// Whether so much of the occupied space belonged to dropped chunks that storing the rest again pays off.
    fn is_sparse(&self) -> bool;

    /// Whether most of the space around a chunk's place belonged to dropped chunks.
    fn is_sparse_around(&self, chunk: &Chunk) -> bool;
}
