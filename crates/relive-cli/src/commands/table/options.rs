//! The commands and what a user may choose.

use clap::{Args, Subcommand};

use super::{add, drop, pause, set};

/// Options of `relive table`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What to do with a table.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Change sizes and limiter of a table while it is in use; whoever may go on then does
    Set(set::Options),
    /// Hold back inserts and samples of a table; calls wait
    Pause(pause::Options),
    /// Let inserts and samples of a table go on
    Resume(pause::Options),
    /// Add the tables of a configuration that the server does not have
    Add(add::Options),
    /// Drop a table with all its items; calls that wait for it fail
    Drop(drop::Options),
}
