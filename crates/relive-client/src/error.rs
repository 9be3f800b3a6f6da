//! What can go wrong when talking to a replay server, as one opaque type with a kind.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use relive_engine::EngineError;
use relive_table::ErrorKind;
use relive_transport::tls::refusal;
use relive_wire::text;
use tonic::{Code, Status};

/// The text of a stream that broke without a status; gRPC reports it as `UNKNOWN`.
const STREAM_REMOVED_TEXT: &str = "Stream removed";

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How errors say that no rate limiter let a sample through in time.
pub(crate) const SAMPLE_TIMEOUT: &str = "Rate Limiter: Timeout exceeded before a sample was let through.";

/// The error of every call of this crate. Cheap to clone, since a broken writer gives the same one to every later call.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Error {
        Error(Arc::new(Inner { kind, message: message.into(), source: Some(Box::new(source)) }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// What a server answered to `operation`, in this crate's words.
    pub(crate) fn from_status(operation: &str, status: Status) -> Error {
        let kind = kind_of(&status);
        let text = match (refused_by_tls(&status), status.message()) {
            (Some(why), _) => format!("TLS does not allow the connection: {why}"),
            (None, "") => status.code().description().to_owned(),
            // The server's text keeps a slip of dm-reverb's, whose programs compare it.
            (None, text) => text.replace(text::SAMPLE_TIMEOUT, SAMPLE_TIMEOUT),
        };
        Error::with_source(kind, format!("{operation}: {text}"), status)
    }

    /// What a table of this process answered to `operation`, in the words of a server.
    pub(crate) fn from_engine(operation: &str, error: EngineError) -> Error {
        let text = match error.kind() {
            ErrorKind::Timeout => format!("{operation}: {SAMPLE_TIMEOUT} ({error})"),
            ErrorKind::Cancelled => format!("{operation}: {} ({error})", text::TABLE_CLOSED),
            _ => format!("{operation}: {error}"),
        };
        Error::with_source(error.kind(), text, error)
    }

    /// The same error as one of `operation`, in whose course another call has failed.
    pub(crate) fn renamed(self, operation: &str) -> Error {
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

    /// Whether the server has said who may come and by which way, so that trying again is of no use.
    pub(crate) fn is_refusal(&self) -> bool {
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

/// Whether a stream that ended with `status` is worth opening again.
pub(crate) fn is_transient_status(status: &Status) -> bool {
    refused_by_tls(status).is_none()
        && (matches!(status.code(), Code::Unavailable | Code::Cancelled) || is_broken_stream(status))
}

/// Whether a call that ended with `status` is worth making again: no server was there to answer it, or the connection ended before it did.
/// What speaks another protocol has answered.
pub(crate) fn is_unanswered(status: &Status) -> bool {
    let is_unavailable = status.code() == Code::Unavailable && is_transient_status(status);
    is_unavailable || (kind_of(status) == ErrorKind::Unavailable && is_connection_lost(status))
}

/// Whether a call that ended with `status` never left, as no connection was made for it.
pub(crate) fn is_unsent(status: &Status) -> bool {
    let first = status.source();
    let is_connecting =
        std::iter::successors(first, |&error| error.source()).any(<dyn StdError>::is::<tonic::ConnectError>);
    is_connecting && is_unanswered(status)
}

/// Whether the connection ended, as sockets and HTTP/2 say it.
fn is_connection_lost(status: &Status) -> bool {
    let first = status.source();
    std::iter::successors(first, |&error| error.source()).any(|error| {
        error.is::<io::Error>()
            || error
                .downcast_ref()
                .is_some_and(|error: &hyper::Error| error.is_canceled() || error.is_closed())
            || error
                .downcast_ref()
                .is_some_and(|error: &h2::Error| error.is_io() || (error.is_go_away() && error.is_remote()))
    })
}

/// What TLS says, if it does not allow the connection.
fn refused_by_tls(status: &Status) -> Option<String> {
    refusal(status.source()?)
}

/// Whether `status` says that the rate limiter did not let a sample through in time.
pub(crate) fn is_limiter_timeout(status: &Status) -> bool {
    status.code() == Code::DeadlineExceeded && status.message().contains(text::SAMPLE_TIMEOUT)
}

fn kind_of(status: &Status) -> ErrorKind {
    if refused_by_tls(status).is_some() {
        ErrorKind::PermissionDenied
    } else if is_broken_stream(status) {
        ErrorKind::Unavailable
    } else {
        ErrorKind::from_grpc_code(status.code() as i32)
    }
}

/// A connection that broke under a stream, which tonic and gRPC report under several codes.
fn is_broken_stream(status: &Status) -> bool {
    match status.code() {
        Code::Unknown => status.message() == STREAM_REMOVED_TEXT || is_transport(status),
        // Cancelled is what hyper says of a request on a connection that ended before it was answered.
        Code::Internal | Code::Unavailable | Code::Cancelled => is_transport(status),
        _ => false,
    }
}

/// Whether the status was made on this side, because of the transport, and did not come from a server.
fn is_transport(status: &Status) -> bool {
    status.source().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_kind_and_text() {
        let error = Error::from_status("sample", Status::not_found("Priority table x was not found"));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "sample: Priority table x was not found");
    }

    #[test]
    fn stream_removed_counts_as_unavailable() {
        let status = Status::unknown("Stream removed");
        assert!(is_transient_status(&status));
        assert_eq!(Error::from_status("insert", status).kind(), ErrorKind::Unavailable);
        assert!(!is_transient_status(&Status::unknown("something else")));
    }

    #[test]
    fn what_the_transport_says_counts_as_unavailable_and_what_a_server_says_counts_as_said() {
        for code in [Code::Unknown, Code::Internal, Code::Unavailable, Code::Cancelled] {
            let mut broken = Status::new(code, "connection closed");
            broken.set_source(Arc::new(io::Error::from(io::ErrorKind::ConnectionReset)));
            assert!(is_unanswered(&broken) && is_transient_status(&broken), "{code:?}");
            let said = Status::new(code, "a server's own words");
            assert_eq!(is_unanswered(&said), code == Code::Unavailable, "{code:?}");
        }
    }

    #[test]
    fn only_the_limiters_text_is_a_limiter_timeout() {
        assert!(is_limiter_timeout(&Status::deadline_exceeded(text::SAMPLE_TIMEOUT)));
        assert!(!is_limiter_timeout(&Status::deadline_exceeded("Deadline Exceeded")));
    }
}
