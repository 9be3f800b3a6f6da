//! The subcommands and their options.

use clap::{Args, Subcommand};

use super::{convert, inspect, ls, prune, save, verify};
use crate::failure::Result;

/// Options of `relive checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
enum Command {
    /// List the checkpoints of a folder or bucket
    Ls(ls::Options),
    /// Read every byte of a checkpoint, or of all checkpoints in a folder or bucket, and report damage
    Verify(verify::Options),
    /// Show the contents of a checkpoint, or of the newest one in a folder or bucket
    Inspect(inspect::Options),
    /// Convert a checkpoint to another format, in a new folder or bucket
    Convert(convert::Options),
    /// Remove all checkpoints except the newest N
    Prune(prune::Options),
    /// Make a server write a checkpoint, and wait until it is written; --timeout applies only to connecting
    Save(save::Options),
}

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
