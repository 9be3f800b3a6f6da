//! Runs the command of a command line.

use std::future::Future;
use std::io;

use tokio::runtime::Builder;

use crate::args::{Args, Command};
use crate::commands::{bench, checkpoint, info, job, reset, rl, serve, table, token, top};
use crate::failure::{Failure, Kind, Result};
use crate::{logging, signals};

/// The maximum number of threads for blocking work: enough for the maximum number of clients of `relive bench`, and
/// some to spare.
const MAX_THREADS: usize = 2_100;

/// Runs the command to its end.
pub(crate) fn run(args: Args) -> Result {
    let default_level = match &args.command {
        Command::Serve(_) => "info",
        Command::Info(_)
        | Command::Top(_)
        | Command::Reset(_)
        | Command::Table(_)
        | Command::Checkpoint(_)
        | Command::Job(_)
        | Command::Token(_) => "warn",
        // A run ends in the middle of episodes, which would make writers log warnings, and it reports waits for a
        // server itself.
        Command::Rl(_) => "warn,relive_rl=info,relive::writer=error",
        // When its time has passed, a bench closes its writers without waiting, which would make the client log a
        // warning.
        Command::Bench(_) => "error",
    };
    logging::start(args.log_level.as_deref(), default_level, args.log_format)?;
    signals::exit_if_first_process().map_err(no_threads)?;
    match args.command {
        Command::Serve(options) => on_runtime(serve::run(options)),
        Command::Info(options) => on_runtime(info::run(options)),
        Command::Bench(options) => on_runtime(bench::run(options)),
        Command::Checkpoint(options) => on_runtime(checkpoint::run(options)),
        Command::Top(options) => on_runtime(top::run(options)),
        Command::Table(options) => on_runtime(table::run(options)),
        Command::Reset(options) => on_runtime(reset::run(options)),
        Command::Token(options) => token::run(&options),
        Command::Job(options) => job::run(&options),
        Command::Rl(options) => rl::run(&options),
    }
}

fn on_runtime(command: impl Future<Output = Result>) -> Result {
    let runtime = Builder::new_multi_thread().enable_all().max_blocking_threads(MAX_THREADS).build();
    runtime.map_err(no_threads)?.block_on(command)
}

fn no_threads(error: io::Error) -> Failure {
    Failure::new(Kind::Runtime, anyhow::Error::new(error).context("cannot start threads"))
}
