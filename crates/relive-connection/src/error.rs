//! The error of calls to a replay server: one opaque type with a kind.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use relive_table::ErrorKind;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of all client calls.
///
/// Cheap to clone, since a failed writer returns the same error from every later call.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error with a kind and a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// Creates an error with a kind, a message and the error that caused it.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Error {
        Error(Arc::new(Inner { kind, message: message.into(), source: Some(Box::new(source)) }))
    }

    /// Creates an error of kind `InvalidArgument`.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// Converts this error, returned by another call, to an error of `operation`, which made that call.
    pub fn renamed(self, operation: &str) -> Error {
        let is_call = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let text = match self.0.message.split_once(": ") {
            Some((call, _)) if call == operation => return self,
            Some((call, text)) if is_call(call) => format!("{operation}: {text}"),
            _ => format!("{operation}: {}", self.0.message),
        };
        Error::with_source(self.kind(), text, self)
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the server refuses this client or this transport, so that a retry is useless.
    pub fn is_refusal(&self) -> bool {
        matches!(self.0.kind, ErrorKind::FailedPrecondition | ErrorKind::PermissionDenied)
    }

    /// Returns whether the error was caused by an expired deadline.
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Returns whether the same call may succeed later without any change by the caller.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind(), ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Cancelled)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
