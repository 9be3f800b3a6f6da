//! The error of a server that did not start or did not stop cleanly.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use relive_checkpoint::ErrorKind as CheckpointKind;
use relive_engine::{BuildError, EngineError};
use relive_server::BindError;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a server that did not start or did not stop cleanly. The message states the fault, its location, and
/// how to fix it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    source: Box<dyn StdError + Send + Sync>,
}

/// The kinds of failures that an [`Error`] can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A table's rule or the checkpoint interval is out of range.
    Tables,
    /// The bound on memory is out of range, or the disk tier has no bound.
    Memory,
    /// The checkpoint contains a state that is impossible under the tables' rules.
    Restore,
    /// An address is invalid, in use, or does not belong to this machine.
    Bind,
    /// A certificate, a key or a token is unusable.
    Security,
    /// The location has no checkpoint or cannot contain one.
    Location,
    /// The checkpoint is damaged.
    Damaged,
    /// A later version of Relive wrote the checkpoint.
    Newer,
    /// Another server has locked the folder of the checkpoints or of the disk tier.
    InUse,
    /// The storage of checkpoints or of the disk tier failed.
    Storage,
    /// The last checkpoint could not be written. Earlier checkpoints stay valid.
    LastCheckpoint,
    /// The server ended by itself, or the system could not start a thread.
    Ended,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        Self { kind, text: source.to_string(), source }
    }

    /// Replaces the text with one derived from it.
    pub(crate) fn with_context(self, text: impl FnOnce(&str) -> String) -> Self {
        Self { text: text(&self.text), ..self }
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the error for a server task that ended.
    pub(crate) fn ended(error: io::Error) -> Self {
        let of_checkpoint = error.get_ref().and_then(|inner| inner.downcast_ref::<EngineError>());
        if of_checkpoint.is_some() {
            return Self::new(ErrorKind::LastCheckpoint, error)
                .with_context(|text| format!("{text}; earlier checkpoints remain valid"));
        }
        Self::new(ErrorKind::Ended, error).with_context(|text| format!("the listening socket failed: {text}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        let kind = match error {
            BuildError::Restore(_) => ErrorKind::Restore,
            BuildError::MaxBytes | BuildError::NoBudget => ErrorKind::Memory,
            _ => ErrorKind::Tables,
        };
        Self::new(kind, error)
    }
}

impl From<BindError> for Error {
    fn from(error: BindError) -> Self {
        Self::new(ErrorKind::Bind, error)
    }
}

impl From<relive_checkpoint::Error> for Error {
    fn from(error: relive_checkpoint::Error) -> Self {
        let kind = match error.kind() {
            CheckpointKind::Location => ErrorKind::Location,
            CheckpointKind::Damaged => ErrorKind::Damaged,
            CheckpointKind::Newer => ErrorKind::Newer,
            CheckpointKind::InUse => ErrorKind::InUse,
            _ => ErrorKind::Storage,
        };
        Self::new(kind, error)
    }
}

/// With this conversion, programs that both serve and connect need only one error type, and all of Python's exceptions
/// are derived from a single list of kinds.
impl From<Error> for relive_client::Error {
    fn from(error: Error) -> Self {
        use relive_client::ErrorKind as Kind;
        let kind = match error.kind {
            ErrorKind::Tables
            | ErrorKind::Memory
            | ErrorKind::Bind
            | ErrorKind::Security
            | ErrorKind::Location => Kind::InvalidArgument,
            ErrorKind::Restore | ErrorKind::InUse | ErrorKind::Newer => Kind::FailedPrecondition,
            ErrorKind::Damaged => Kind::DataLoss,
            ErrorKind::Storage | ErrorKind::LastCheckpoint | ErrorKind::Ended => Kind::Internal,
        };
        Self::with_source(kind, error.to_string(), error)
    }
}
