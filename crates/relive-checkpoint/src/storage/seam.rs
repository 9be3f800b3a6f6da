//! The storage interface.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;

use crate::Error;

/// A storage of named files, such as `checkpoint-0000000042.relive` and `segments/00ff….chunks`.
pub(crate) trait Storage: Send + Sync {
    /// Starts a file. The file appears under its name only once it is finished; it is then complete and durable.
    fn create(&self, name: &str) -> io::Result<Box<dyn Upload>>;

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>>;

    /// Returns the files in a folder, without subfolders, in no particular order; `""` is the root. A missing folder is
    /// empty.
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Removes a file. The removal is durable when this function returns.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Excludes all other writers until the result is dropped. Creates the root if necessary.
    ///
    /// # Errors
    /// `InUse` if there is another writer, which the error names; `Io` if the root is read-only.
    fn lock(&self) -> Result<Box<dyn WriterLock>, Error>;

    /// Makes a complete and immutable file on this machine also appear under another name, durably and without copying
    /// it. Returns true even if the name already existed, and false if this is impossible.
    fn take_over(&self, _file: &Path, _name: &str) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns the path or URL of a file, for messages; `""` is the root.
    fn describe(&self, name: &str) -> String;
}

/// Excludes all other writers until it is dropped.
pub(crate) trait WriterLock: Send + Sync {
    /// Returns whether it still excludes other writers. It does not if its folder was moved or removed.
    fn is_held(&self) -> bool {
        true
    }
}

/// A listed file of a [`Storage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The whole name, as passed to [`Storage::open`].
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
}

/// A file under construction. If it is dropped before it is finished, it leaves nothing behind.
pub(crate) trait Upload: Send {
    /// Appends all parts. Advances the parts past the written bytes, so they must not be used afterwards.
    fn write(&mut self, parts: &mut [IoSlice<'_>]) -> io::Result<()>;

    /// Makes the file durable, and publishes it.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// A file that several threads can read at any offset.
pub(crate) trait Source: Send + Sync {
    fn size_bytes(&self) -> u64;

    /// # Errors
    /// `UnexpectedEof` if the file ends within the requested range, and other errors of the storage.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// Reads the range if the read is certain not to wait for a disk. Otherwise, returns false and leaves unspecified
    /// contents in `into`.
    fn read_if_near(&self, _into: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Announces a read, so that the range can be prefetched.
    fn read_ahead(&self, _range: Range<u64>) {}
}
