//! What can go wrong when talking to a replay server, as one opaque type with a kind.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong; the message of the [`Error`] says the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A deadline passed: the call's own, or the rate limiter's while sampling.
    Timeout,
    /// No server answers at the address, or the connection broke and did not come back in time.
    Unavailable,
    /// An argument, a step, a column or an item cannot be accepted as it is.
    InvalidArgument,
    /// A table, column or step that was named does not exist (any more).
    NotFound,
    /// What was received cannot be decoded, or what was sent is lost.
    DataLoss,
    /// The server gave up the operation, for example because it stops.
    Cancelled,
    /// The writer or sampler was closed before this call.
    Closed,
    /// The other side broke the protocol, or does not speak it.
    Protocol,
    /// The server does not offer this operation.
    Unimplemented,
    /// The server refuses because of a limit.
    ResourceExhausted,
    /// The server does not let this client do that.
    PermissionDenied,
    /// The operation is not possible in the present state.
    FailedPrecondition,
    /// The server failed.
    Internal,
}

impl ErrorKind {
    fn text(self) -> &'static str {
        match self {
            ErrorKind::Timeout => "timeout",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::NotFound => "not found",
            ErrorKind::DataLoss => "data loss",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Closed => "closed",
            ErrorKind::Protocol => "protocol error",
            ErrorKind::Unimplemented => "unimplemented",
            ErrorKind::ResourceExhausted => "resource exhausted",
            ErrorKind::PermissionDenied => "permission denied",
            ErrorKind::FailedPrecondition => "failed precondition",
            ErrorKind::Internal => "internal error",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The error of every call of a client. Cheap to clone, since a broken writer gives the same one to every later call.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind with its text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// An error of this kind with its text, and the error that it follows from.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Error {
        Error(Arc::new(Inner { kind, message: message.into(), source: Some(Box::new(source)) }))
    }

    /// An error of kind `InvalidArgument`.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// The same error as one of `operation`, in whose course another call has failed.
    pub fn renamed(self, operation: &str) -> Error {
        let is_call = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let text = match self.0.message.split_once(": ") {
            Some((call, _)) if call == operation => return self,
            Some((call, text)) if is_call(call) => format!("{operation}: {text}"),
            _ => format!("{operation}: {}", self.0.message),
        };
        Error::with_source(self.kind(), text, self)
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the server refuses this client or this transport, so that trying again is of no use.
    pub fn is_refusal(&self) -> bool {
        matches!(self.0.kind, ErrorKind::FailedPrecondition | ErrorKind::PermissionDenied)
    }

    /// Whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Whether the same call may well succeed later, with nothing changed by the caller.
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
