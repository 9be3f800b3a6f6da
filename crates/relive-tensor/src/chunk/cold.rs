//! What is asked of a disk that keeps chunks while they are not in memory.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;

use super::Chunk;

/// Why a disk did not do as asked.
pub type ColdError = Box<dyn Error + Send + Sync>;

/// Where chunks lie that are not in memory. It knows each chunk that it has stored for as long as the chunk lives.
pub trait ColdStore: Send + Sync {
    /// Has the frames of chunks [leave memory](Chunk::leave_memory), but for those that somebody has at hand. Those
    /// that have no place yet are stored first, which gives them [one](Chunk::set_place). Those that are not in memory
    /// are stored again, at a better place.
    ///
    /// # Errors
    /// The disk is full or broken. Chunks that are not stored stay where they are.
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError>;

    /// Reads the frames of chunks that are not in memory, all of them at once, checks that they are what was stored,
    /// and has them [come back](Chunk::come_back). Gives the frames, which stay in memory for as long as they are held.
    /// Passes over chunks that it does not have.
    ///
    /// # Errors
    /// A frame cannot be read, or is not what was stored. Others may have come back.
    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, ColdError>;

    /// Whether so much of what is occupied belonged to chunks that are gone that storing the rest again is worth it.
    fn is_sparse(&self) -> bool;

    /// Whether a chunk has its place where most belonged to chunks that are gone.
    fn is_sparse_around(&self, chunk: &Chunk) -> bool;
}
