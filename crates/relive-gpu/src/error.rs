//! The error type of this crate.

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, with a [`kind`](Self::kind) for programs and a text for people.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    kind: ErrorKind,
    text: String,
    source: Option<std::io::Error>,
}

/// Kinds of errors, by how a caller can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid; repeating it cannot succeed.
    InvalidArgument,
    /// Nothing has this name, index or generation.
    NotFound,
    /// The requested resource is in use, or there is no room left; the request may succeed later.
    Unavailable,
    /// A file or segment is damaged or inconsistent.
    Corrupt,
    /// The system refused memory, a file or a device.
    System,
    /// A wait ended because the caller's function requested it.
    Interrupted,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, text)
    }

    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, text)
    }

    pub(crate) fn corrupt(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, text)
    }

    pub(crate) fn system(text: impl std::fmt::Display, source: std::io::Error) -> Self {
        Self { kind: ErrorKind::System, text: format!("{text}: {source}"), source: Some(source) }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
