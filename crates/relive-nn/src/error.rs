use std::fmt;

/// The reason why saved parameters or optimizer states were rejected.
///
/// This error is for data from outside. A mistake in the program itself, such as mismatched shapes, causes a panic
/// whose message contains the shapes.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not a file of the expected format, or are truncated.
    Damaged,
    /// The data is intact but belongs to another network or optimizer.
    Mismatch,
}

impl Error {
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Damaged, message: message.into() }
    }

    pub(crate) fn mismatch(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Mismatch, message: message.into() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
