//! What is asked of a disk that keeps chunks while they are not in memory.

use std::error::Error;
use std::sync::Arc;

use super::Chunk;

/// Why a disk did not do as asked.
pub type ColdError = Box<dyn Error + Send + Sync>;

/// Where chunks lie that are not in memory. It knows each chunk that it has stored for as long as the chunk lives.
pub trait ColdStore: Send + Sync {
    /// Stores the frames of chunks that can be moved, and moves them there by [`Chunk::move_frame`]. Those that were moved
    /// before are stored again, at a better place.
    ///
    /// # Errors
    /// The disk is full or broken. Chunks that are not stored stay where they are.
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError>;

    /// Brings the frames of chunks near, all of them at once, and checks that they are what was stored. Passes over
    /// chunks that it does not have.
    ///
    /// # Errors
    /// A frame cannot be read, or is not what was stored.
    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError>;

    /// Whether so much of what is occupied belonged to chunks that are gone that storing the rest again is worth it.
    fn is_sparse(&self) -> bool;

    /// Whether a chunk that was moved lies where most belonged to chunks that are gone.
    fn is_sparse_around(&self, chunk: &Chunk) -> bool;
}
