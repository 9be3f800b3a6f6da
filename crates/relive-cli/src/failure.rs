//! How a command fails: a message for people and an exit code for scripts.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use relive_client::ErrorKind;
use relive_env::EnvError;
use relive_rl::RlError;

use crate::output;

/// The kind of a command's failure; the number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An operation failed while the command ran.
    Runtime = 1,
    /// The command line or the configuration is invalid.
    Usage = 2,
    /// No server answers at the address.
    Unreachable = 3,
    /// A server is listening at the address, but did not answer in time.
    Timeout = 4,
    /// The address to listen on cannot be bound.
    Bind = 5,
    /// The server refuses this client or operation.
    Refused = 6,
}

/// The failure of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command failed with a message.
    Error { kind: Kind, error: anyhow::Error },
    /// The program that read the output is gone, so there is nothing left to do or to report.
    OutputClosed,
}

/// The result of all operations of a command.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(kind: Kind, error: impl Into<anyhow::Error>) -> Self {
        Self::Error { kind, error: error.into() }
    }

    /// Returns a failure with only a message.
    pub(crate) fn text(kind: Kind, text: impl fmt::Display) -> Self {
        Self::new(kind, anyhow::Error::msg(text.to_string()))
    }

    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::text(Kind::Usage, text)
    }

    /// Returns the failure to use a file or folder.
    pub(crate) fn at(path: &Path, error: impl fmt::Display) -> Self {
        Self::text(Kind::Runtime, format!("{}: {error}", path.display()))
    }

    /// Adds the option that caused the failure to its message.
    pub(crate) fn of(self, option: &str) -> Self {
        match self {
            Self::Error { kind, error } => Self::Error { kind, error: error.context(option.to_owned()) },
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Returns the kind of the error, or `None` if the program that read the output is gone.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Self::OutputClosed => None,
            Self::Error { kind, .. } => Some(*kind),
        }
    }

    /// Returns the failure's message, in one line.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::OutputClosed => String::new(),
            Self::Error { error, .. } => one_line(&format!("{error:#}")),
        }
    }

    /// Writes the message to stderr and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::Error { kind, .. } => {
                output::print_error(&format!("relive: error: {}", self.message()));
                ExitCode::from(*kind as u8)
            }
        }
    }
}

impl From<relive_host::Error> for Failure {
    fn from(error: relive_host::Error) -> Self {
        use relive_host::ErrorKind as Host;
        let kind = match error.kind() {
            Host::Tables | Host::Restore | Host::Memory | Host::Security | Host::Location => Kind::Usage,
            Host::Bind => Kind::Bind,
            _ => Kind::Runtime,
        };
        Self::text(kind, error)
    }
}

impl From<RlError> for Failure {
    fn from(error: RlError) -> Self {
        if let RlError::Environment(EnvError::Setting(setting)) = error.cause() {
            let text = format!("environment: expected {}, got {}", setting.expected, setting.actual);
            return Self::usage(text);
        }
        let is_usage = matches!(
            error.cause(),
            RlError::Setting { .. }
                | RlError::OtherRun { .. }
                | RlError::Unsuited { .. }
                | RlError::NoDemonstrator
                | RlError::Dataset { .. }
                | RlError::Recording { .. }
        );
        let is_refused =
            matches!(error.cause(), RlError::Replay(error) if error.kind() == ErrorKind::PermissionDenied);
        let kind = match (is_usage, is_refused) {
            (true, _) => Kind::Usage,
            (_, true) => Kind::Refused,
            _ => Kind::Runtime,
        };
        Self::text(kind, error)
    }
}

impl From<io::Error> for Failure {
    /// Converts an error of writing results. Other code adds context to errors.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::new(Kind::Runtime, anyhow::Error::new(error).context("cannot write the result")),
        }
    }
}

/// Returns clap's message without the usage, which the help shows.
pub(crate) fn usage_reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = text.find("\n\nUsage:").or_else(|| text.find("\n\nFor more information")).unwrap_or(text.len());
    let (what, _) = text.split_at(end);
    what.trim().replace("\n\n  tip: ", "; ").replace("\n  tip: ", "; ")
}

/// Joins lines. Errors of parsers span several lines, but a log with one line per error is easier to search.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiline_text_is_joined_into_one_line() {
        assert_eq!(one_line("a\n  b:\tc\n\n"), "a b: c");
    }

    #[test]
    fn a_closed_output_is_not_reported_as_an_error() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, Failure::OutputClosed), "{closed:?}");
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Failure::Error { kind: Kind::Runtime, .. }), "{full:?}");
    }
}
