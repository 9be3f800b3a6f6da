//! The bytes of a chunk: in place, or where they can be moved while the chunk lives.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    Fixed(Box<[u8]>),
    /// Where a disk tier moves it.
    Movable(Box<Movable>),
}

pub(super) struct Movable {
    bytes: Mutex<Bytes>,
    len: usize,
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
            Self::Movable(movable) => ChunkBytes(Access::Shared(movable.lock().clone())),
        }
    }

    /// The frame, sharing what can be moved anyway.
    pub(super) fn shared(&self) -> Option<Bytes> {
        match self {
            Self::Fixed(_) => None,
            Self::Movable(movable) => Some(movable.lock().clone()),
        }
    }

    pub(super) fn into_movable(self) -> Self {
        match self {
            Self::Fixed(frame) => {
                let len = frame.len();
                Self::Movable(Box::new(Movable { bytes: Mutex::new(Bytes::from(frame)), len }))
            }
            Self::Movable(_) => self,
        }
    }

    /// Puts the frame elsewhere. Gives what it was, to be dropped where that harms nobody; `None`, and nothing has
    /// changed, if it cannot be moved or the other bytes are not as long.
    pub(super) fn replace(&self, bytes: Bytes) -> Option<Bytes> {
        match self {
            Self::Movable(movable) if movable.len == bytes.len() => {
                Some(std::mem::replace(&mut *movable.lock(), bytes))
            }
            Self::Fixed(_) | Self::Movable(_) => None,
        }
    }
}

impl Movable {
    /// Nothing that panics is done under the lock.
    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> ChunkBytes<'a> {
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
