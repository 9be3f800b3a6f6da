//! Where a chunk's frame is: in memory, in its place outside of it, or in both.

use std::sync::Arc;

use bytes::Bytes;

use super::Chunk;

/// Chunks' frames stay in memory for as long as this lives: the disk tier passes over what somebody has at hand.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use relive_tensor::{AtHand, Chunk, Codec, Ledger, SequenceRange, Tensor, encode_chunk};
///
/// let rows = Tensor::from_slice(&[7_u8; 400], [1, 400])?;
/// let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
/// let parts = encode_chunk(1, range, &[rows], false, Codec::Raw)?;
/// let chunk = Arc::new(Chunk::new(parts)?.with_ledger(Arc::new(Ledger::of_movable_chunks())));
/// assert!(chunk.set_place(Bytes::from_static(&[7; 400])));
///
/// let (at_hand, away) = AtHand::of(std::slice::from_ref(&chunk));
/// assert!(away.is_empty() && !chunk.leave_memory());
/// drop(at_hand);
/// assert!(chunk.leave_memory() && !chunk.is_resident());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AtHand {
    /// Only held, never looked at.
    _frames: Vec<Bytes>,
}

impl AtHand {
    /// Keeps those of `chunks` in memory that are there, and gives those that are not. Chunks whose frames cannot be
    /// moved need neither.
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
    /// Whether the frame can be moved.
    #[must_use]
    pub fn is_movable(&self) -> bool {
        self.movable().is_some()
    }

    /// Whether the frame is in memory of this process's own.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        !self.state().get().is_moved()
    }

    /// Whether the frame has a [place](Self::set_place) outside of that memory, and can [leave](Self::leave_memory) for
    /// it.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.state().get().is_stored()
    }

    /// The frame if it is in memory, where it stays for as long as what is given lives; `None` also if it cannot be
    /// moved.
    #[must_use]
    pub fn frame_in_memory(&self) -> Option<Bytes> {
        self.movable()?.near()
    }

    /// Whether somebody has the frame at hand, so that it cannot leave memory. Only of frames that can be moved.
    #[must_use]
    pub fn is_at_hand(&self) -> bool {
        self.movable().is_some_and(super::bytes::Movable::is_at_hand)
    }

    /// Whether the frame was read since the last call. Only of frames that can be moved.
    #[must_use]
    pub fn take_touched(&self) -> bool {
        self.state().take_touched()
    }

    /// Gives the frame a place outside of this process's own memory, or another one than before; `bytes` lie there, and
    /// must be the same bytes. The frame stays in memory if it is there. The place is kept for as long as the chunk
    /// lives.
    ///
    /// False, and nothing has changed, if the frame cannot be moved or `bytes` are of another length.
    pub fn set_place(&self, bytes: Bytes) -> bool {
        let Some(movable) = self.movable().filter(|movable| movable.len() == bytes.len()) else {
            return false;
        };
        // What it lay in before is dropped after the lock.
        let before = movable.set_far(bytes);
        self.state().set_stored();
        drop(before);
        true
    }

    /// Has the frame be where its place is, and frees the memory that it takes. False, and nothing has changed, if the
    /// frame was not in memory, has no place, or somebody has it at hand.
    pub fn leave_memory(&self) -> bool {
        let Some(movable) = self.movable() else { return false };
        let mut before = None;
        self.counted().note_moved(self.books(), true, || {
            before = movable.take_near();
            before.is_some()
        })
    }

    /// Has the frame be in memory again, at `bytes`, which must be the same bytes, made of a vector; the place is kept.
    /// Gives the frame, which is another one than `bytes` if it was in memory already. It cannot leave while what is
    /// given lives.
    ///
    /// `None`, and nothing has changed, if the frame cannot be moved or `bytes` are of another length.
    #[must_use]
    pub fn come_back(&self, bytes: &Bytes) -> Option<Bytes> {
        let movable = self.movable().filter(|movable| movable.len() == bytes.len())?;
        let mut frame = None;
        self.counted().note_moved(self.books(), false, || {
            let (near, is_new) = movable.put_near(bytes);
            frame = Some(near);
            is_new
        });
        frame
    }
}
