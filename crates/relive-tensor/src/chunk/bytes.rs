//! The bytes of a chunk, which are either movable or fixed in memory.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The bytes of a chunk, which stay accessible as long as this value is alive, even if the chunk's bytes are moved in
/// the meantime.
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
    /// Prints only the length, since the bytes can be numerous.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkBytes({})", self.len())
    }
}

/// How a chunk stores its frame.
pub(super) enum FrameStorage {
    /// In the chunk's own memory, for as long as the chunk is alive.
    Fixed(Arc<[u8]>),
    /// Movable by a disk tier.
    Movable(Box<Movable>),
}

pub(super) struct Movable {
    frames: Mutex<Frames>,
    len: usize,
}

/// The locations of a frame: in memory, outside it, or both. There is always at least one location.
struct Frames {
    in_memory: Option<Bytes>,
    stored: Option<Bytes>,
}

impl FrameStorage {
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
                // The frame is copied into `Bytes`, whose reference count shows whether other code is using the frame.
                let frames = Frames { in_memory: Some(Bytes::copy_from_slice(&frame)), stored: None };
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

    /// Returns the frame, from memory if it is there.
    pub(super) fn get(&self) -> Bytes {
        let frames = self.lock();
        frames.in_memory.as_ref().or(frames.stored.as_ref()).cloned().unwrap_or_default()
    }

    /// Returns the frame, if it is in memory.
    pub(super) fn in_memory(&self) -> Option<Bytes> {
        self.lock().in_memory.clone()
    }

    /// Returns whether a reader is using the frame in memory.
    pub(super) fn is_frame_in_use(&self) -> bool {
        self.lock().in_memory.as_ref().is_some_and(|in_memory| !in_memory.is_unique())
    }

    /// Sets the location of the frame outside memory. Returns the previous one.
    pub(super) fn set_stored_frame(&self, bytes: Bytes) -> Option<Bytes> {
        self.lock().stored.replace(bytes)
    }

    /// Removes the frame from memory if it also has another location and no reader uses it. Later readers use the other
    /// location.
    pub(super) fn take_from_memory(&self) -> Option<Bytes> {
        let mut frames = self.lock();
        frames.stored.as_ref()?;
        frames.in_memory.take_if(|in_memory| in_memory.is_unique())
    }

    /// Returns the frame that is now in memory, and whether that frame is `bytes`. It is `bytes` if no frame was in
    /// memory before.
    pub(super) fn put_in_memory(&self, bytes: &Bytes) -> (Bytes, bool) {
        let mut frames = self.lock();
        let is_new = frames.in_memory.is_none();
        (frames.in_memory.get_or_insert_with(|| bytes.clone()).clone(), is_new)
    }

    /// Locks the frames. No code under the lock panics.
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> ChunkBytes<'a> {
    /// Returns the bytes if they stay in place while the chunk is alive.
    pub(super) fn in_place(&self) -> Option<&'a [u8]> {
        match &self.0 {
            Access::Borrowed(bytes) => Some(bytes),
            Access::Shared(_) => None,
        }
    }

    /// Returns a part of the bytes.
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
