//! The bytes of a chunk: in place, or where they can be moved while the chunk lives.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Bytes of a chunk, at hand for as long as this lives, wherever the chunk's bytes move meanwhile.
#[derive(Clone)]
pub struct ChunkBytes<'a>(Access<'a>);

#[derive(Clone)]
enum Access<'a> {
    Borrowed(&'a [u8]),
    Shared(Bytes),
}

impl<'a> From<&'a [u8]> for ChunkBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Access::Borrowed(bytes))
    }
}

impl Deref for ChunkBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Access::Borrowed(bytes) => bytes,
            Access::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for ChunkBytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for ChunkBytes<'_> {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl fmt::Debug for ChunkBytes<'_> {
    /// The length only: there can be many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkBytes({})", self.len())
    }
}

/// How a chunk keeps its frame.
pub(super) enum Kept {
    /// In its own memory, for as long as it lives.
    Fixed(Arc<[u8]>),
    /// Where a disk tier moves it.
    Movable(Box<Movable>),
}

pub(super) struct Movable {
    frames: Mutex<Frames>,
    len: usize,
}

/// Where a frame lies: in memory, outside of it, or both. Never nowhere.
struct Frames {
    near: Option<Bytes>,
    far: Option<Bytes>,
}

impl Kept {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fixed(frame) => frame.len(),
            Self::Movable(movable) => movable.len,
        }
    }

    pub(super) fn get(&self) -> ChunkBytes<'_> {
        match self {
            Self::Fixed(frame) => ChunkBytes(Access::Borrowed(frame)),
            Self::Movable(movable) => ChunkBytes(Access::Shared(movable.get())),
        }
    }

    pub(super) fn movable(&self) -> Option<&Movable> {
        match self {
            Self::Fixed(_) => None,
            Self::Movable(movable) => Some(movable),
        }
    }

    pub(super) fn into_movable(self) -> Self {
        match self {
            Self::Fixed(frame) => {
                let len = frame.len();
                // A copy, which tells whether anybody else has it at hand.
                let frames = Frames { near: Some(Bytes::copy_from_slice(&frame)), far: None };
                Self::Movable(Box::new(Movable { frames: Mutex::new(frames), len }))
            }
            Self::Movable(_) => self,
        }
    }
}

impl Movable {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The frame, in memory if it is there.
    pub(super) fn get(&self) -> Bytes {
        let frames = self.lock();
        frames.near.as_ref().or(frames.far.as_ref()).cloned().unwrap_or_default()
    }

    /// The frame, if it is in memory.
    pub(super) fn near(&self) -> Option<Bytes> {
        self.lock().near.clone()
    }

    /// Whether somebody has the frame at hand that is in memory.
    pub(super) fn is_at_hand(&self) -> bool {
        self.lock().near.as_ref().is_some_and(|near| !near.is_unique())
    }

    /// Sets where the frame lies outside of memory, and gives where it lay there before.
    pub(super) fn set_far(&self, bytes: Bytes) -> Option<Bytes> {
        self.lock().far.replace(bytes)
    }

    /// Takes the frame out of memory if it lies elsewhere, too, and nobody has it at hand: who is to have it later
    /// finds it elsewhere.
    pub(super) fn take_near(&self) -> Option<Bytes> {
        let mut frames = self.lock();
        frames.far.as_ref()?;
        frames.near.take_if(|near| near.is_unique())
    }

    /// The frame that is in memory; it is `bytes` if there was none, which the second value tells.
    pub(super) fn put_near(&self, bytes: &Bytes) -> (Bytes, bool) {
        let mut frames = self.lock();
        let is_new = frames.near.is_none();
        (frames.near.get_or_insert_with(|| bytes.clone()).clone(), is_new)
    }

    /// Nothing that panics is done under the lock.
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> ChunkBytes<'a> {
    /// The bytes, if they stay where they are for as long as the chunk lives.
    pub(super) fn in_place(&self) -> Option<&'a [u8]> {
        match &self.0 {
            Access::Borrowed(bytes) => Some(bytes),
            Access::Shared(_) => None,
        }
    }

    /// A part of the bytes.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Option<ChunkBytes<'a>> {
        match &self.0 {
            Access::Borrowed(bytes) => Some(Self(Access::Borrowed(bytes.get(range)?))),
            Access::Shared(bytes) if range.start <= range.end && range.end <= bytes.len() => {
                Some(Self(Access::Shared(bytes.slice(range))))
            }
            Access::Shared(_) => None,
        }
    }
}
