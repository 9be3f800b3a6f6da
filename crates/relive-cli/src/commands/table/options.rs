//! The subcommands and their options.

use clap::{Args, Subcommand};

use super::{add, drop, pause, set};
use crate::failure::Result;

/// Options of `relive table`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

/// What to do with a table.
#[derive(Debug, Subcommand)]
enum Command {
    /// Change sizes and limiter of a table while it is in use; waiting calls that the new rules permit proceed
    Set(set::Options),
    /// Pause inserts and samples of a table; calls wait
    Pause(pause::Options),
    /// Resume inserts and samples of a table
    Resume(pause::Options),
    /// Add the tables of a configuration that the server does not have
    Add(add::Options),
    /// Drop a table with all its items; calls that wait for it fail
    Drop(drop::Options),
}

/// Runs the command.
pub(crate) async fn run(options: Options) -> Result {
    match options.command {
        Command::Set(options) => set::run(options).await,
        Command::Pause(options) => pause::run(options, true).await,
        Command::Resume(options) => pause::run(options, false).await,
        Command::Add(options) => add::run(options).await,
        Command::Drop(options) => drop::run(options).await,
    }
}
