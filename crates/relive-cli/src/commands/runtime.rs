//! From a command line to a command that runs.

use std::future::Future;

use tokio::runtime::Runtime;

use crate::args::{Args, Command};
use crate::commands::serve;
use crate::failure::{Failure, Kind, Result};
use crate::logging;

/// Runs the command to its end.
pub(crate) fn run(args: Args) -> Result {
    let level = args.log_level.as_deref();
    match args.command {
        Command::Serve(options) => {
            logging::start(level, "info")?;
            on_runtime(serve::run(options))
        }
    }
}

fn on_runtime(command: impl Future<Output = Result>) -> Result {
    let runtime = Runtime::new().map_err(|error| {
        let error = anyhow::Error::new(error).context("cannot start threads");
        Failure::new(Kind::Runtime, error)
    })?;
    runtime.block_on(command)
}
