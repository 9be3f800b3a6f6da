//! `cargo xtask`: all tasks of this repository beyond building it.
//!
//! Each command has a file. A command prints the programs that it runs, stops at the first failure, and leaves only
//! `target/` and `.venv/` behind.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer tool talks to its terminal")]

mod bench;
mod binary;
mod ci;
mod demo;
mod dependencies;
mod fuzz;
mod interop;
mod phases;
mod process;
mod ptx;
mod python;
mod s3;
mod soak;
mod test;
mod tidy;
mod wheel;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of Relive")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train an agent on CartPole with two actors, a learner and an evaluator, and draw its learning curve
    Demo(demo::Options),
    /// Run all tests: unit, documentation and integration tests, loom, the tidy rules, and those of the Python package
    Test,
    /// Run the dm-reverb client against our server, and our client against the dm-reverb server
    Interop(interop::Options),
    /// Measure our server and package, compare them with dm-reverb's and other replay buffers, and print the ratios
    Bench(bench::Options),
    /// Run a server under load, kills, cut connections and invalid input, and check that no confirmed item is lost
    Soak(soak::Options),
    /// Fuzz every decoder with libFuzzer for a given time
    Fuzz(fuzz::Options),
    /// Run all checks that must pass before a merge: tests, formatting, lints, docs, interop
    Ci,
    /// Compile the GPU kernels after a change to their sources; requires no GPU
    Ptx,
    /// Check licenses and origins of all dependencies against the rules of deny.toml
    Dependencies,
    /// Check project rules that the compiler cannot check: layers, sizes, absences
    Tidy,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let root = workspace::root()?;
    match command {
        Command::Demo(options) => demo::run(&root, &options),
        Command::Test => test::run(&root),
        Command::Interop(options) => interop::run(&root, &options),
        Command::Bench(options) => bench::run(&root, &options),
        Command::Soak(options) => soak::run(&root, &options),
        Command::Fuzz(options) => fuzz::run(&root, &options),
        Command::Ci => ci::run(&root),
        Command::Ptx => ptx::run(&root),
        Command::Dependencies => dependencies::run(&root),
        Command::Tidy => tidy::run(&root),
    }
}
