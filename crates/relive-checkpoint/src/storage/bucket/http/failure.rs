//! Which failures are retried.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;
use object_store::client::{HttpError, HttpErrorKind};

/// Returns a failure with its kind, which determines whether the request is retried.
pub(super) fn classified(error: impl Error + Send + Sync + 'static) -> HttpError {
    let kind = kind(&error);
    HttpError::new(kind, error)
}

fn kind(error: &(dyn Error + 'static)) -> HttpErrorKind {
    if causes(error).filter_map(|cause| cause.downcast_ref::<legacy::Error>()).any(legacy::Error::is_connect)
    {
        return HttpErrorKind::Connect;
    }
    causes(error).find_map(of_cause).unwrap_or(HttpErrorKind::Unknown)
}

/// Returns the error and the chain of its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<HttpErrorKind> {
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        // This is true for a pooled connection that the service had closed, and for a connection that broke during the
        // response.
        let cut = error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted();
        return (cut || error.is_canceled()).then_some(HttpErrorKind::Request);
    }
    match cause.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::TimedOut => Some(HttpErrorKind::Timeout),
        io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Some(HttpErrorKind::Interrupted),
        _ => None,
    }
}
