//! What is asked of a storage.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;

use crate::Error;

/// A place that keeps files under names, such as `checkpoint-0000000042.relive` and `segments/00ff….chunks`.
pub(crate) trait Storage: Send + Sync {
    /// Begins a file, which appears under its name, whole and durable, when it is finished, and not before.
    fn create(&self, name: &str) -> io::Result<Box<dyn Upload>>;

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>>;

    /// The files of a folder, not of those below it, in no order; `""` is the root. A folder that is not there is
    /// empty.
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Removes a file; that it is gone lasts when this returns.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Keeps every other writer out until the result is dropped. Makes the root if it is not there.
    ///
    /// # Errors
    /// `InUse` if there is another writer, saying who; `Io` if the root is not to be written to.
    fn lock(&self) -> Result<Box<dyn Send + Sync>, Error>;

    /// Has a file of this machine, which is whole and does not change any more, appear under a name as well, durable,
    /// and without copying it; true also if it was there already. False where that cannot be.
    fn take_over(&self, _file: &Path, _name: &str) -> io::Result<bool> {
        Ok(false)
    }

    /// Path or URL of a file, for people; `""` is the root.
    fn describe(&self, name: &str) -> String;
}

/// A file of a [`Storage`] that is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The whole name, as [`Storage::open`] takes it.
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
}

/// A file in the making. Dropped before it is finished, nothing of it stays.
pub(crate) trait Upload: Send {
    /// Appends all of the parts. They are advanced past what was written, so they are worth nothing afterwards.
    fn write(&mut self, parts: &mut [IoSlice<'_>]) -> io::Result<()>;

    /// Makes the file durable, and lets it appear.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// A file to be read anywhere, by several threads at once.
pub(crate) trait Source: Send + Sync {
    fn size_bytes(&self) -> u64;

    /// # Errors
    /// Among others `UnexpectedEof`, if the file ends inside of what is asked for.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// Reads if that needs no waiting for a disk. Otherwise, and where nobody can tell, false, and `into` is worth
    /// nothing.
    fn read_if_near(&self, _into: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Says what will be asked for soon, so that it can be fetched meanwhile.
    fn read_ahead(&self, _range: Range<u64>) {}
}
