//! What a service answers, as an error that says what to do.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use object_store::Error;

use super::location::Location;

/// Most characters of a service's own words that are repeated.
const MAX_WORDS: usize = 300;

/// The error of a request. It names neither file nor URL: whoever asked for the file does.
pub(super) fn explain(location: &Location, error: Error) -> io::Error {
    let said = words(&error);
    let (kind, advice) = match &error {
        Error::NotFound { .. } if is_about_the_bucket(&said) => (
            ErrorKind::NotFound,
            format!(": there is no bucket `{}`; make it first, or mend the URL", location.bucket),
        ),
        Error::NotFound { .. } => (ErrorKind::NotFound, String::new()),
        Error::AlreadyExists { .. } => {
            let advice = "; another server has written it: let one server only write to this place";
            (ErrorKind::AlreadyExists, advice.to_owned())
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            let credentials = location.service.credentials();
            (ErrorKind::PermissionDenied, format!("; the credentials do not allow it: {credentials}"))
        }
        Error::Generic { .. } if is_about_credentials(&error) => {
            let credentials = location.service.credentials();
            (ErrorKind::PermissionDenied, format!("; there are no credentials: {credentials}"))
        }
        Error::NotImplemented { .. } | Error::NotSupported { .. } => {
            let advice = "; the service must know conditional puts (If-None-Match and If-Match)";
            (ErrorKind::Unsupported, advice.to_owned())
        }
        _ => (ErrorKind::Other, String::new()),
    };
    io::Error::new(kind, Refusal { text: format!("{said}{advice}"), source: error })
}

fn is_about_the_bucket(said: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"].iter().any(|code| said.contains(code))
}

/// Whether the machine's own role was asked for and there is none.
fn is_about_credentials(error: &Error) -> bool {
    let text = error.to_string();
    ["/latest/api/token", "/latest/meta-data", "/computeMetadata", "/metadata/identity"]
        .iter()
        .any(|path| text.contains(path))
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
