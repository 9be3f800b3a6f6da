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
    /// Read a checkpoint from its first byte to the last, and say what is not whole; of a folder or bucket, all of them
    Verify(verify::Options),
    /// Show what is in a checkpoint; of a folder or bucket, in the newest
    Inspect(inspect::Options),
    /// Write a checkpoint in another format, into a new folder or bucket
    Convert(convert::Options),
    /// Remove all checkpoints but the newest N
    Prune(prune::Options),
    /// Have a server write a checkpoint and wait for it, however long that takes: --timeout is about connecting
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
