//! From a command to what does it, and from an error of checkpoints to an exit code.

use relive_checkpoint::{Error, ErrorKind, Location};
use serde::Serialize;

use super::options::{Command, Options};
use super::{convert, inspect, ls, prune, save, verify};
use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Runs the command.
pub(crate) async fn run(options: Options) -> Result {
    match options.command {
        Command::Ls(options) => ls::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Convert(options) => convert::run(&options),
        Command::Prune(options) => prune::run(&options),
        Command::Save(options) => save::run(options).await,
    }
}

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
