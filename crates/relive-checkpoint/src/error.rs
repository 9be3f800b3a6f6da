//! Errors of checkpoints.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

use crate::Loss;

/// The reason why a checkpoint was not written or not read. The text names the file, and the record if the error
/// concerns a record.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    /// The location of the damage in the file.
    place: Option<Place>,
    /// The damaged file.
    file: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file system refused an operation.
    Io,
    /// A file is missing or damaged, or has contents that no server writes.
    Damaged,
    /// A later version of Relive wrote the checkpoint.
    Newer,
    /// Another process is writing there.
    InUse,
    /// The location is invalid, or does not exist.
    Location,
}

/// Describes damage to a file.
pub(crate) type Reason = Box<dyn StdError + Send + Sync>;

impl Error {
    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the path or URL of the damaged file, if the error is about damage.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns the damage that the error describes, if any, as a loss without lost items.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let offset = self.place.map_or(0, |place| place.offset);
        let reason = self.source.as_ref().map_or_else(|| self.text.clone(), ToString::to_string);
        self.file.as_ref().map(|file| Loss::of(file, offset, reason))
    }

    /// Returns the error for an operation on `path`, described by `what`, that the operating system refused.
    pub(crate) fn io(what: &str, path: &Path, source: io::Error) -> Self {
        let text = format!("cannot {what} {}: {source}", path.display());
        Self { kind: ErrorKind::Io, text, place: None, file: None, source: Some(Box::new(source)) }
    }

    /// Returns the error for an operation, described by `what`, that a storage refused. `file` is the name of the file
    /// in messages.
    pub(crate) fn storage(what: &str, file: &str, source: io::Error) -> Self {
        let text = format!("cannot {what} {file}: {source}");
        Self { kind: ErrorKind::Io, text, place: None, file: None, source: Some(Box::new(source)) }
    }

    /// Returns whether the place is read-only for everyone or for this process.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.io_kind(), Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem))
    }

    /// Returns whether a file was not written because another writer had created a file with the same name.
    pub(crate) fn is_of_another(&self) -> bool {
        self.io_kind() == Some(io::ErrorKind::AlreadyExists)
    }

    fn io_kind(&self) -> Option<io::ErrorKind> {
        let source = self.source.as_deref().and_then(|source| source.downcast_ref::<io::Error>());
        source.map(io::Error::kind)
    }

    /// Damage.
    pub(crate) fn lost(loss: &Loss) -> Self {
        Self { file: Some(loss.file.clone()), ..Self::plain(ErrorKind::Damaged, loss.to_string()) }
    }

    /// Returns an error described by its text alone.
    pub(crate) fn plain(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), place: None, file: None, source: None }
    }

    /// Returns the error for damage to the checkpoint or file at `path`.
    pub(crate) fn damaged(path: &Path, place: Option<Place>, reason: impl Into<Reason>) -> Self {
        let reason = reason.into();
        let text = match place {
            Some(Place { record, offset }) => {
                format!("{}: record {record}, at byte {offset} of the content: {reason}", path.display())
            }
            None => format!("{}: {reason}", path.display()),
        };
        let file = Some(path.display().to_string());
        Self { kind: ErrorKind::Damaged, text, place, file, source: Some(reason) }
    }
}

/// The number of a record, and its offset in the decompressed file. Both are counted from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) record: u64,
    pub(crate) offset: u64,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
