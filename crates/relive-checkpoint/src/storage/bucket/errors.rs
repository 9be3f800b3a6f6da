//! What a service answers, as an error that says what to do.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use object_store::Error;

use super::location::Location;

/// Most characters of a service's own words that are repeated.
const MAX_WORDS: usize = 300;

/// The error of a request. It names neither file nor URL: whoever asked for the file does.
pub(super) fn explain(location: &Location, error: Error) -> io::Error {
    let whole = error.to_string();
    let (kind, advice) = match &error {
        Error::NotFound { .. } | Error::Generic { .. } if has_one(&whole, NO_BUCKET) => {
            let bucket = &location.bucket;
            (ErrorKind::NotFound, format!("; there is no bucket `{bucket}`: make it first, or mend the URL"))
        }
        Error::NotFound { .. } => (ErrorKind::NotFound, String::new()),
        Error::AlreadyExists { .. } => {
            let advice = "; another server has written it: let one server only write to this place";
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
            let advice = "; the service must know conditional puts (If-None-Match and If-Match)";
            (ErrorKind::Unsupported, advice.to_owned())
        }
        _ => (ErrorKind::Other, retries(&whole)),
    };
    io::Error::new(kind, Refusal { text: format!("{}{advice}", words(&error)), source: error })
}

/// What answers say if there is no such bucket.
const NO_BUCKET: &[&str] = &["NoSuchBucket", "ContainerNotFound", "bucket does not exist"];

/// What answers say if credentials are not good enough, where that is not told otherwise.
const DENIED: &[&str] = &["401 Unauthorized", "403 Forbidden", "ExpiredToken", "InvalidToken"];

/// Where the role of the machine itself is asked for, which is done last, and fails if it has none.
const NO_ROLE: &[&str] =
    &["/latest/api/token", "/latest/meta-data", "/computeMetadata", "/metadata/identity"];

fn has_one(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn denied(location: &Location) -> String {
    format!("; the credentials do not allow it: {}", location.service.credentials())
}

/// How often it was tried again.
fn retries(text: &str) -> String {
    let count = text.split_once(", after ").and_then(|(_, rest)| rest.split_once(" retries"));
    let count = count.map(|(count, _)| count).filter(|count| *count != "0");
    count.map_or_else(String::new, |count| format!(" (after {count} retries)"))
}

/// What went wrong without the words around it: code and message of the service, or the innermost cause.
fn words(error: &Error) -> String {
    let mut innermost: &dyn StdError = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let mut said = match (element(&text, "Code"), element(&text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {}", message.trim_end_matches('.')),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    if let Some((end, _)) = said.char_indices().nth(MAX_WORDS) {
        said.truncate(end);
        said.push('…');
    }
    said
}

/// The text of an XML element that holds nothing else.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

/// The words, and behind them what they were made of.
#[derive(Debug)]
struct Refusal {
    text: String,
    source: Error,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Refusal {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.source)
    }
}
