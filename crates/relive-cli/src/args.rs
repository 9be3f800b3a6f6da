//! The command line.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, Parser, Subcommand};

use crate::commands::{bench, checkpoint, info, job, reset, rl, serve, table, token, top};
use crate::failure::{Failure, Result, usage_reason};
use crate::logging::LogFormat;
use crate::output;

/// The position of the common options in the help: after a command's own options.
const LAST: usize = 900;

/// Experience-replay server and its tools.
#[derive(Debug, Parser)]
#[command(name = "relive", version, propagate_version = true, max_term_width = 110)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// What to log to stderr: off, error, warn, info, debug, trace, or target=level pairs [default: RUST_LOG; else info
    /// for `serve`, error for `bench`, the run's progress and warnings for `rl`, warn for the others]
    #[arg(long, global = true, value_name = "LEVEL", display_order = LAST)]
    pub(crate) log_level: Option<String>,
    /// Format of the log on stderr: lines for people, or one JSON object per line for programs
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT", display_order = LAST)]
    pub(crate) log_format: LogFormat,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a replay server until SIGINT, SIGTERM or SIGHUP
    Serve(serve::Options),
    /// Show the tables of a server: sizes, rates, limiters, and which calls wait for what
    Info(info::Options),
    /// Generate load on a server with inserts or samples, and measure it
    Bench(bench::Options),
    /// List, verify, inspect, convert and remove checkpoints, or make a server write one
    Checkpoint(checkpoint::Options),
    /// Show a server live in a terminal
    Top(top::Options),
    /// Change the tables of a running server: sizes, limiters, pauses; add and drop tables
    Table(table::Options),
    /// Remove all items of a table and set its counters to 0
    Reset(reset::Options),
    /// Train agents, record episodes, and work with runs
    Rl(rl::Options),
    /// Inspect runs from outside: list them, watch them, read their logs, stop them
    Job(job::Options),
    /// Create a token for clients of a server that requires one
    Token(token::Options),
}

/// Parses the command line. If the command line asks for the help or the version, prints that and ends the process
/// successfully.
pub(crate) fn parse() -> Result<Args> {
    let line = std::env::args_os().collect::<Vec<_>>();
    Args::try_parse_from(&line).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => show(&error),
        _ => Failure::usage(usage_error(&error, &line)),
    })
}

/// Prints the help. The process then ends, whether or not the output was read.
fn show(help: &clap::Error) -> Failure {
    match output::line(help.render().to_string().trim_end()) {
        Ok(()) => Failure::OutputClosed,
        Err(error) => Failure::from(error),
    }
}

/// Describes the error in a command line, and names the relevant help.
fn usage_error(error: &clap::Error, line: &[OsString]) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no command given; see `relive --help`".to_owned();
    }
    format!("{}; see `{} --help`", usage_reason(error), command_of(line))
}

/// Returns the command whose help covers this line: `relive`, or `relive` with the subcommands.
fn command_of(line: &[OsString]) -> String {
    let matches = Args::command().ignore_errors(true).try_get_matches_from(line);
    let (mut command, mut inner) = ("relive".to_owned(), matches.as_ref().ok());
    while let Some((name, matches)) = inner.and_then(ArgMatches::subcommand) {
        (command, inner) = (format!("{command} {name}"), Some(matches));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_error_of(line: &str) -> String {
        let line = line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let error = Args::try_parse_from(&line).unwrap_err();
        crate::failure::one_line(&usage_error(&error, &line))
    }

    #[test]
    fn the_command_line_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn an_invalid_command_line_is_reported_in_one_line() {
        assert_eq!(usage_error_of("relive"), "no command given; see `relive --help`");
        assert_eq!(
            usage_error_of("relive serve"),
            "the following required arguments were not provided: --config <FILE>; see `relive serve --help`"
        );
        assert_eq!(
            usage_error_of("relive serve --config x --port 70000"),
            "invalid value '70000' for '--port <PORT>': 70000 is not in 0..=65535; see `relive serve --help`"
        );
        assert_eq!(
            usage_error_of("relive serv"),
            "unrecognized subcommand 'serv'; a similar subcommand exists: 'serve'; see `relive --help`"
        );
        assert_eq!(
            usage_error_of("relive --log-level info info --jsno h:1"),
            "unexpected argument '--jsno' found; a similar argument exists: '--json'; see `relive info --help`"
        );
        let error = usage_error_of("relive rl train");
        assert!(error.ends_with("see `relive rl train --help`"), "{error}");
    }
}
