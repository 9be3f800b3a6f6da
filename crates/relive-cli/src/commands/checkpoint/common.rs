//! What the commands have in common: where checkpoints are, what errors mean, how documents are printed.

use relive_checkpoint::{Error, ErrorKind, Location};
use serde::Serialize;

use crate::failure::{Failure, Kind, Result};
use crate::output;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Location => Kind::Usage,
            _ => Kind::Runtime,
        };
        Self::text(kind, error)
    }
}

/// The folder or bucket that a command is about, which must be there; `does` is what the command does with it.
pub(super) fn root_of(location: &str, does: &str) -> Result<String> {
    match relive_checkpoint::locate(location)? {
        Location::Root(root) => Ok(root),
        Location::Checkpoint { root, .. } => Err(Failure::usage(format!(
            "{location} is one checkpoint, and {does} all of a folder: name {root}"
        ))),
    }
}

/// Prints a document for programs.
pub(super) fn print_json(document: &impl Serialize) -> Result {
    let text = serde_json::to_string_pretty(document).expect("strings, numbers and lists of them");
    output::line(&text)?;
    Ok(())
}
