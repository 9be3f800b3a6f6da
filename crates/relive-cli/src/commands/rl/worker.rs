//! `relive rl worker`: acts for a remote run.

use std::io::Read;

use clap::Args;
use relive_rl::plan::MakeEnvironment;
use relive_rl::processes::{Worker, work};
use relive_rl::run::Stop;

use super::processes::ServerAccess;
use crate::failure::Result;
use crate::output;

/// Options of `relive rl worker`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Address of the server with the run's tables, host:port; the run determines agent, settings and environment
    #[arg(long, value_name = "ADDR")]
    join: String,
    /// Number of this worker among the workers of the run, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    number: u32,
    /// Address of the worker's node, which has the weights of the run
    #[arg(long, value_name = "ADDR", hide = true)]
    weights_from: Option<String>,
    /// Exit when standard input closes, which happens when the parent process exits
    #[arg(long, hide = true)]
    supervised: bool,
    #[command(flatten)]
    access: ServerAccess,
}

/// Acts until the run ends.
pub(crate) fn run(options: &Options) -> Result {
    let stop = Stop::new();
    if options.supervised {
        end_with_input();
    }
    let client = options.access.client(&options.join, "--join")?;
    let make = |name: &str| {
        let name = name.to_owned();
        let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?));
        Ok(make)
    };
    let (number, is_supervised) = (options.number, options.supervised);
    let near = options.weights_from.as_deref().map(|address| options.access.near(address)).transpose()?;
    let lines = output::capture();
    let worker = Worker {
        client: &client,
        number,
        is_supervised,
        // A supervised worker is started when the run already exists.
        awaits_next: false,
        weights_from: near.as_ref(),
        stop: &stop,
        log_lines: Some(&lines),
    };
    let worked = work(&worker, &relive_agents::from_json, &make)?;
    let (episodes, steps) = (worked.episodes, worked.env_steps);
    output::line(&format!("worker {number}: {episodes} episodes, {steps} steps"))?;
    Ok(())
}

/// Ends the process when its standard input is closed.
pub(super) fn end_with_input() {
    std::thread::spawn(|| {
        let mut input = std::io::stdin();
        let mut byte = [0];
        while !matches!(input.read(&mut byte), Ok(0) | Err(_)) {}
        std::process::exit(0);
    });
}
