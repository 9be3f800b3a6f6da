//! Converts a service's responses to actionable errors.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use object_store::Error;

use super::location::Location;

/// The maximum number of characters that are quoted from a service's message.
const MAX_WORDS: usize = 300;

/// Returns the error of a request. It names neither the file nor the URL; the caller adds the file.
pub(super) fn explain(location: &Location, error: Error) -> io::Error {
    let whole = error.to_string();
    let (kind, advice) = match &error {
        Error::NotFound { .. } | Error::Generic { .. } if has_one(&whole, NO_BUCKET) => {
            let bucket = &location.bucket;
            (ErrorKind::NotFound, format!("; there is no bucket `{bucket}`: create it first, or fix the URL"))
        }
        Error::NotFound { .. } => (ErrorKind::NotFound, String::new()),
        Error::AlreadyExists { .. } => {
            let advice = "; another server wrote it: let only one server write to this location";
            (ErrorKind::AlreadyExists, advice.to_owned())
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            (ErrorKind::PermissionDenied, denied(location))
        }
        Error::Generic { .. } if has_one(&whole, DENIED) => (ErrorKind::PermissionDenied, denied(location)),
        Error::Generic { .. } if has_one(&whole, NO_ROLE) => {
            let advice = format!("; no credentials were found: {}", location.service.credentials());
            (ErrorKind::PermissionDenied, advice)
        }
        Error::NotImplemented { .. } | Error::NotSupported { .. } => {
            let advice = "; the service must support conditional puts (If-None-Match and If-Match)";
            (ErrorKind::Unsupported, advice.to_owned())
        }
        _ => (ErrorKind::Other, retries(&whole)),
    };
    io::Error::new(kind, AdvisedError { text: format!("{}{advice}", words(&error)), source: error })
}

/// The error codes that services return if the bucket does not exist.
const NO_BUCKET: &[&str] = &["NoSuchBucket", "ContainerNotFound", "bucket does not exist"];

/// The error codes that services return if the credentials are insufficient, in cases in which the kind of the error
/// does not show this.
const DENIED: &[&str] = &["401 Unauthorized", "403 Forbidden", "ExpiredToken", "InvalidToken"];

/// Requests for the role of the machine itself. They are made last, and fail if the machine has no role.
const NO_ROLE: &[&str] =
    &["/latest/api/token", "/latest/meta-data", "/computeMetadata", "/metadata/identity"];

fn has_one(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn denied(location: &Location) -> String {
    format!("; the credentials do not permit it: {}", location.service.credentials())
}

/// Returns the number of retries.
fn retries(text: &str) -> String {
    let count = text.split_once(", after ").and_then(|(_, rest)| rest.split_once(" retries"));
    let count = count.map(|(count, _)| count).filter(|count| *count != "0");
    count.map_or_else(String::new, |count| format!(" (after {count} retries)"))
}

/// Returns the core of an error: the code and the message from the service, or the innermost cause.
fn words(error: &Error) -> String {
    let mut innermost: &dyn StdError = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let mut message = match (element(&text, "Code"), element(&text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {}", message.trim_end_matches('.')),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    if let Some((end, _)) = message.char_indices().nth(MAX_WORDS) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// Returns the text of an XML element without nested elements.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

/// A message, with the original error as its source.
#[derive(Debug)]
struct AdvisedError {
    text: String,
    source: Error,
}

impl std::fmt::Display for AdvisedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for AdvisedError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.source)
    }
}
