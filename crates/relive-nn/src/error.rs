use std::fmt;

/// Why saved parameters or optimiser states were refused.
///
/// What a program gets wrong in its own code (shapes that do not fit each other) is a panic with the shapes in its
/// message; this is for data that comes from outside.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What kind of refusal an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are no such file, or are cut short.
    Damaged,
    /// The data is whole but belongs to another network or optimiser.
    Mismatch,
    /// A limit of [`limits`](crate::limits) is exceeded.
    TooLarge,
}

impl Error {
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Damaged, message: message.into() }
    }

    pub(crate) fn mismatch(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Mismatch, message: message.into() }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::TooLarge, message: message.into() }
    }

    /// What kind of refusal it is.
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
