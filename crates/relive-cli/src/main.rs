//! `relive`: the replay server and its tools, as one program.
//!
//! Results go to stdout, logs and errors to stderr. An error is one line that says what was wrong and how to fix it;
//! the exit code shows its kind. `docs/cli.md` lists the kinds and their exit codes.

mod allocator;
mod args;
mod checkpoints;
mod choice;
mod commands;
mod config;
mod failure;
mod jobs;
mod logging;
mod output;
mod progress;
mod rules;
mod runtime;
mod security;
mod server;
mod signals;
mod units;

use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::prepare();
    match args::parse().and_then(runtime::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
