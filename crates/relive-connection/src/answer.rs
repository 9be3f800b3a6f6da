//! Converts errors from servers, and from tables in this process, to client errors.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use relive_engine::EngineError;
use relive_table::ErrorKind;
use relive_transport::tls::refusal;
use relive_wire::text;
use tonic::{Code, Status};

use crate::Error;

/// The text of a stream that broke without a status; gRPC reports it as `UNKNOWN`.
const STREAM_REMOVED_TEXT: &str = "Stream removed";

/// The text of tonic's status for a channel whose task has ended.
const NOT_READY_TEXT: &str = "Service was not ready: transport error";

/// The text of errors for a rate limiter's timeout.
pub const SAMPLE_TIMEOUT: &str = "Rate Limiter: Timeout exceeded before a sample was let through.";

/// Converts a server's status for `operation` to a client error.
pub fn status_error(operation: &str, status: Status) -> Error {
    let kind = kind_of(&status);
    let text = match (refused_by_tls(&status), status.message()) {
        (Some(why), _) => format!("the TLS connection failed: {why}"),
        (None, "") => status.code().description().to_owned(),
        (None, NOT_READY_TEXT) => {
            "the client cannot be used any longer, because the Tokio runtime in which it was created has \
             ended; create it in a runtime that lives longer, or use a blocking client"
                .to_owned()
        }
        // The server's text keeps a typo of dm-reverb's, because programs compare it.
        (None, text) => text.replace(text::SAMPLE_TIMEOUT, SAMPLE_TIMEOUT),
    };
    Error::with_source(kind, format!("{operation}: {text}"), status)
}

/// Converts an error that a table in this process returned for `operation`; the text is the same as from a server.
pub fn engine_error(operation: &str, error: EngineError) -> Error {
    let text = match error.kind() {
        ErrorKind::Timeout => format!("{operation}: {SAMPLE_TIMEOUT} ({error})"),
        ErrorKind::Cancelled => format!("{operation}: {} ({error})", text::TABLE_CLOSED),
        _ => format!("{operation}: {error}"),
    };
    Error::with_source(error.kind(), text, error)
}

/// Returns the error for a call that timed out. `trouble` is the reason why no server was reachable, if any.
pub fn timeout_error(operation: &str, timeout: Duration, address: &str, trouble: Option<&Status>) -> Error {
    let why = match trouble {
        Some(status) => format!("no server listens there: {}", status.message()),
        None => "the server did not answer".to_owned(),
    };
    let text = format!("{operation}: Deadline Exceeded after {timeout:?} at {address}: {why}");
    Error::new(ErrorKind::Timeout, text)
}

/// Returns whether a stream that ended with `status` should be reopened.
pub fn is_transient_status(status: &Status) -> bool {
    refused_by_tls(status).is_none()
        && (matches!(status.code(), Code::Unavailable | Code::Cancelled) || is_broken_stream(status))
}

/// Returns whether a call that ended with `status` should be retried, because no server was reachable or the connection
/// ended before the response. A server that uses another protocol counts as having answered.
pub(crate) fn is_unanswered(status: &Status) -> bool {
    let is_unavailable = status.code() == Code::Unavailable && is_transient_status(status);
    is_unavailable || (kind_of(status) == ErrorKind::Unavailable && is_connection_lost(status))
}

/// Returns whether a call that ended with `status` was never sent because there was no connection.
pub(crate) fn is_unsent(status: &Status) -> bool {
    let first = status.source();
    let is_connecting =
        std::iter::successors(first, |&error| error.source()).any(<dyn StdError>::is::<tonic::ConnectError>);
    is_connecting && is_unanswered(status)
}

/// Returns whether sockets or HTTP/2 report that the connection ended.
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

/// Returns the TLS error message, if TLS refuses the connection.
fn refused_by_tls(status: &Status) -> Option<String> {
    refusal(status.source()?)
}

/// Returns whether `status` is a timeout of the rate limiter.
pub fn is_limiter_timeout(status: &Status) -> bool {
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

/// Returns whether the status means that the connection of a stream broke. tonic and gRPC report this with several
/// codes.
fn is_broken_stream(status: &Status) -> bool {
    match status.code() {
        Code::Unknown => status.message() == STREAM_REMOVED_TEXT || is_transport(status),
        // hyper reports `Cancelled` for a request whose connection ended before the response.
        Code::Internal | Code::Unavailable | Code::Cancelled => is_transport(status),
        _ => false,
    }
}

/// Returns whether the status was created on this side, because of a transport error, rather than by the server.
fn is_transport(status: &Status) -> bool {
    status.source().is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_status_keeps_its_kind_and_text() {
        let error = status_error("sample", Status::not_found("Priority table x was not found"));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "sample: Priority table x was not found");
    }

    #[test]
    fn stream_removed_counts_as_unavailable() {
        let status = Status::unknown("Stream removed");
        assert!(is_transient_status(&status));
        assert_eq!(status_error("insert", status).kind(), ErrorKind::Unavailable);
        assert!(!is_transient_status(&Status::unknown("something else")));
    }

    #[test]
    fn transport_errors_are_unavailable_and_server_errors_keep_their_code() {
        for code in [Code::Unknown, Code::Internal, Code::Unavailable, Code::Cancelled] {
            let mut broken = Status::new(code, "connection closed");
            broken.set_source(Arc::new(io::Error::from(io::ErrorKind::ConnectionReset)));
            assert!(is_unanswered(&broken) && is_transient_status(&broken), "{code:?}");
            let own_status = Status::new(code, "a server's own words");
            assert_eq!(is_unanswered(&own_status), code == Code::Unavailable, "{code:?}");
        }
    }

    #[test]
    fn only_the_limiters_text_is_a_limiter_timeout() {
        assert!(is_limiter_timeout(&Status::deadline_exceeded(text::SAMPLE_TIMEOUT)));
        assert!(!is_limiter_timeout(&Status::deadline_exceeded("Deadline Exceeded")));
    }
}
