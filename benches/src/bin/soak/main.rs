//! Tests a server under all kinds of load and faults at once for a given time: writers, samplers, updates, deletions,
//! checkpoints, kills, cut connections, slow readers and invalid input. Compares it with a model that records every
//! confirmed item.
//!
//! ```console
//! $ cargo xtask soak --minutes 30
//! ```
//!
//! Arguments: the server's program, a folder for its checkpoints, `--minutes N` (default 2), `--seed S` (default 1),
//! `--json FILE`, and `--namespace yes` for a network namespace whose cable is unplugged and slowed down. In the first
//! three fifths of the time, the server is killed repeatedly; in the rest, it stays up, and its memory use must stay
//! constant. Ends with a report. Fails if a confirmed item was lost or wrong, if the server panicked or ended by
//! itself, or if its memory use drifted.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the report is the purpose of the program")]

mod arguments;
mod content;
mod model;
mod namespace;
mod proxy;
mod report;
mod roles;
mod server;
mod world;

use std::process::ExitCode;
use std::sync::Arc;

use relive_benches::Outcome;

use arguments::Arguments;
use world::World;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything held.
async fn run(words: &[String]) -> Outcome<bool> {
    let arguments = Arguments::parse(words)?;
    let world = Arc::new(World::create(&arguments).await?);
    println!("soak: {} minutes, seed {}, server at {}", arguments.minutes, arguments.seed, world.address());
    let ended = roles::run(&world, &arguments).await;
    world.server.kill();
    let report = report::Report::of(&world, ended.as_ref().err().map(ToString::to_string));
    println!("{report}");
    if let Some(path) = &arguments.json {
        std::fs::write(path, report.json())?;
    }
    Ok(report.holds())
}
