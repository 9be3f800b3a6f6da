//! What can go wrong.

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and with what: [`kind`](Self::kind) is for programs, the text is for people.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    kind: ErrorKind,
    text: String,
    source: Option<std::io::Error>,
}

/// The kinds of errors, by what a caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for what makes no sense: another request is needed.
    InvalidArgument,
    /// There is nothing with this name, index or generation.
    NotFound,
    /// What was asked for is taken, or there is no room for it now; it may work later.
    Unavailable,
    /// A file or segment is not what it says it is.
    Corrupt,
    /// The system refused: memory, files, a device.
    System,
    /// A wait ended because the caller's function asked for it.
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

    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
