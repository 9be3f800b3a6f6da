//! Which of `relive rl`'s commands is meant.

use clap::{Args, Subcommand};

use super::train;
use crate::failure::Result;

/// Options of `relive rl`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

/// What to do with an agent.
#[derive(Debug, Subcommand)]
enum What {
    /// Train an agent in an environment
    Train(train::Options),
}

pub(crate) fn run(options: &Options) -> Result {
    match &options.what {
        What::Train(options) => train::run(options),
    }
}
