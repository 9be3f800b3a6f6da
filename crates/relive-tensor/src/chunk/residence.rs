//! The location of a chunk's frame: in memory, in its place outside memory, or in both.

use std::sync::Arc;

use bytes::Bytes;

use super::Chunk;

/// Keeps the frames of chunks in memory while this value is alive: the disk tier skips frames in use.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use relive_tensor::{ResidenceGuard, Chunk, Codec, Ledger, SequenceRange, Tensor, encode_chunk};
///
/// let rows = Tensor::from_slice(&[7_u8; 400], [1, 400])?;
/// let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
/// let parts = encode_chunk(1, range, &[rows], false, Codec::Raw)?;
/// let chunk = Arc::new(Chunk::new(parts)?.with_ledger(Arc::new(Ledger::of_movable_chunks())));
/// assert!(chunk.set_place(Bytes::from_static(&[7; 400])));
///
/// let (guard, away) = ResidenceGuard::of(std::slice::from_ref(&chunk));
/// assert!(away.is_empty() && !chunk.evict_frame());
/// drop(guard);
/// assert!(chunk.evict_frame() && !chunk.is_resident());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResidenceGuard {
    /// Frames that are held only to keep them in memory, and are never read.
    _frames: Vec<Bytes>,
}

impl ResidenceGuard {
    /// Keeps in memory the chunks that are already there, and returns the others. Ignores chunks with fixed frames,
    /// which are always in memory.
    #[must_use]
    pub fn of(chunks: &[Arc<Chunk>]) -> (Self, Vec<Arc<Chunk>>) {
        let (mut frames, mut away) = (Vec::new(), Vec::new());
        for chunk in chunks {
            match chunk.frame_in_memory() {
                Some(frame) => frames.push(frame),
                None if chunk.is_movable() => away.push(Arc::clone(chunk)),
                None => {}
            }
        }
        (Self { _frames: frames }, away)
    }
}

impl Chunk {
    /// Returns whether the frame is movable.
    #[must_use]
    pub fn is_movable(&self) -> bool {
        self.movable().is_some()
    }

    /// Returns whether the frame is in this process's own memory.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        !self.state().get().is_moved()
    }

    /// Returns whether the frame has a [place](Self::set_place) outside this process's own memory, to which it can be
    /// [moved](Self::evict_frame).
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.state().get().is_stored()
    }

    /// Returns the frame if it is in memory, where it stays while the returned value is alive. Also returns `None` if
    /// the frame is not movable.
    #[must_use]
    pub fn frame_in_memory(&self) -> Option<Bytes> {
        self.movable()?.in_memory()
    }

    /// Returns whether a reader is using the frame, so that it cannot leave memory. Meaningful only for movable frames.
    #[must_use]
    pub fn is_frame_in_use(&self) -> bool {
        self.movable().is_some_and(super::bytes::Movable::is_frame_in_use)
    }

    /// Returns whether the frame has been read since the last call. Meaningful only for movable frames.
    #[must_use]
    pub fn take_touched(&self) -> bool {
        self.state().take_touched()
    }

    /// Sets or replaces the frame's place outside this process's own memory. `bytes` are the frame's bytes at that
    /// place. A frame in memory stays in memory. The place is kept while the chunk is alive.
    ///
    /// Returns false and changes nothing if the frame is not movable or `bytes` have a different length.
    pub fn set_place(&self, bytes: Bytes) -> bool {
        let Some(movable) = self.movable().filter(|movable| movable.len() == bytes.len()) else {
            return false;
        };
        // The previous place is dropped after the lock is released.
        let before = movable.set_stored_frame(bytes);
        self.state().set_stored();
        drop(before);
        true
    }

    /// Moves the frame from memory to its place, and frees its memory. Returns false and changes nothing if the frame
    /// is not in memory, has no place, or is in use.
    pub fn evict_frame(&self) -> bool {
        let Some(movable) = self.movable() else { return false };
        let mut before = None;
        self.counted().note_moved(self.holders_ledger(), true, || {
            before = movable.take_from_memory();
            before.is_some()
        })
    }

    /// Puts the frame back into memory as `bytes`, which must be equal to the frame and must have been created from a
    /// vector. The frame keeps its place. Returns the frame, which is not `bytes` if the frame was already in memory.
    /// The frame cannot leave memory while the returned value is alive.
    ///
    /// Returns `None` and changes nothing if the frame is not movable or `bytes` have a different length.
    #[must_use]
    pub fn restore_frame(&self, bytes: &Bytes) -> Option<Bytes> {
        let movable = self.movable().filter(|movable| movable.len() == bytes.len())?;
        let mut frame = None;
        self.counted().note_moved(self.holders_ledger(), false, || {
            let (in_memory, is_new) = movable.put_in_memory(bytes);
            frame = Some(in_memory);
            is_new
        });
        frame
    }
}
