//! The reason why a command was not executed.

use relive::Error;

/// The reason why a command was not executed: the kind of the client's error, or `Driver` for the suite's own mistakes.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(kind: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: kind.into(), text: text.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(format!("{:?}", error.kind()), error.to_string())
    }
}
