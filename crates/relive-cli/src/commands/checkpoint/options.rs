//! The commands and what a user may choose.

use clap::{Args, Subcommand};

use super::{convert, inspect, ls, prune, save, verify};

/// Options of `relive checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
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
