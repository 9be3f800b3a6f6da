//! Code shared by the commands: locating checkpoints, interpreting errors, and printing documents.

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

/// Returns the folder or bucket of a command, which must exist; `does` describes the command.
pub(super) fn root_of(location: &str, does: &str) -> Result<String> {
    match relive_checkpoint::locate(location)? {
        Location::Root(root) => Ok(root),
        Location::Checkpoint { root, .. } => Err(Failure::usage(format!(
            "{location} is a single checkpoint, but {does} all checkpoints of a folder; give {root}"
        ))),
    }
}

/// Prints a document for programs.
pub(super) fn print_json(document: &impl Serialize) -> Result {
    let text = serde_json::to_string_pretty(document)
        .expect("strings, numbers and lists of these can be serialized");
    output::line(&text)?;
    Ok(())
}
