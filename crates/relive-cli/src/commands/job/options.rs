//! The subcommands of `relive job`.

use clap::{Args, Subcommand};

use super::{logs, ls, stop, top};
use crate::failure::Result;

/// Options of `relive job`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: JobCommand,
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
enum JobCommand {
    /// List the jobs on this machine: the runs whose tables are served
    Ls(ls::Options),
    /// Show a job live: its operators, workers and nodes
    Top(top::Options),
    /// Print the logs of a job's processes, from all machines in one stream
    Logs(logs::Options),
    /// Stop a job gracefully, or kill it
    Stop(stop::Options),
}

pub(crate) fn run(options: &Options) -> Result {
    match &options.what {
        JobCommand::Ls(options) => ls::run(options),
        JobCommand::Top(options) => top::run(options),
        JobCommand::Logs(options) => logs::run(options),
        JobCommand::Stop(options) => stop::run(options),
    }
}
