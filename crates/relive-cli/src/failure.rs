//! How a command fails: a line for people and a code for scripts.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::output;

/// Why a command ends without success; the number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something failed while the command ran.
    Runtime = 1,
    /// The command line or the configuration cannot be used.
    Usage = 2,
    /// No server answers at the address.
    Unreachable = 3,
    /// A server is there, but an answer did not come in time.
    Timeout = 4,
    /// The address to listen on cannot be had.
    Bind = 5,
    /// The server does not let this client in, or do that.
    Refused = 6,
}

/// The end of a command that did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed, and says so.
    Error { kind: Kind, error: anyhow::Error },
    /// Nobody reads the output any more. Nothing is left to do, and nothing to say.
    OutputClosed,
}

/// The result of everything that a command does.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(kind: Kind, error: impl Into<anyhow::Error>) -> Self {
        Self::Error { kind, error: error.into() }
    }

    /// A failure that is told by `text` alone.
    pub(crate) fn text(kind: Kind, text: impl fmt::Display) -> Self {
        Self::new(kind, anyhow::Error::msg(text.to_string()))
    }

    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::text(Kind::Usage, text)
    }

    /// The same, told with the option that it is about.
    pub(crate) fn of(self, option: &str) -> Self {
        match self {
            Self::Error { kind, error } => Self::Error { kind, error: error.context(option.to_owned()) },
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// What kind of error it is, if it is one.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Self::OutputClosed => None,
            Self::Error { kind, .. } => Some(*kind),
        }
    }

    /// Its text, in one line.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::OutputClosed => String::new(),
            Self::Error { error, .. } => one_line(&format!("{error:#}")),
        }
    }

    /// Writes the line to stderr and gives the code to exit with.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::Error { kind, .. } => {
                output::complain(&format!("relive: error: {}", self.told()));
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

impl From<io::Error> for Failure {
    /// Of writing results; other uses say more.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::new(Kind::Runtime, anyhow::Error::new(error).context("cannot write the result")),
        }
    }
}

/// What clap says in paragraphs, without the usage: the help shows that.
pub(crate) fn what_is_wrong(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = text.find("\n\nUsage:").or_else(|| text.find("\n\nFor more information")).unwrap_or(text.len());
    let (what, _) = text.split_at(end);
    what.trim().replace("\n\n  tip: ", "; ").replace("\n  tip: ", "; ")
}

/// Errors of parsers span lines; a log of one line each is easier to search.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_indents_become_one_line() {
        assert_eq!(one_line("a\n  b:\tc\n\n"), "a b: c");
    }

    #[test]
    fn a_closed_output_is_not_an_error_to_talk_about() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, Failure::OutputClosed), "{closed:?}");
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Failure::Error { kind: Kind::Runtime, .. }), "{full:?}");
    }
}
