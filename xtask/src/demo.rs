//! `cargo xtask demo`: trains an agent and shows its progress.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::binary::{self, Profile};
use crate::process;

/// The environment. An episode has at most 500 steps.
const ENVIRONMENT: &str = "CartPole-v1";

/// The mean return that the trained agent must reach.
const ENOUGH: f64 = 400.0;

#[derive(Args)]
pub(crate) struct Options {
    /// The seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// The number of actors
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    actors: u32,
    /// The maximum number of steps in the environment, of all actors together; the run ends when the mean return of the
    /// last 20 episodes reaches 450
    #[arg(long, default_value_t = 100_000)]
    steps: u32,
}

/// Builds the program, trains with it, and checks the trained agent.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let program = binary::build(root, "relive-cli", "relive", Profile::Release)?;
    let folder = root.join("target/demo");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (figures, curve) = (folder.join("figures.json"), folder.join("learning-curve.png"));
    let mut command = Command::new(program);
    command.current_dir(root).args(["rl", "train", "dqn", "--env", ENVIRONMENT, "--http", "127.0.0.1:0"]);
    command.args(["--seed", &options.seed.to_string(), "--actors", &options.actors.to_string()]);
    command.args(["--steps", &options.steps.to_string(), "--until", "450", "--evaluate-every", "5000"]);
    command.args(["--graph", "text"]);
    // The bar needs a terminal.
    let logs = if stderr().is_terminal() { "jsonl" } else { "jsonl,terminal" };
    command.args(["--logs", logs]);
    for (option, path) in [("--log-dir", &folder), ("--plot", &curve), ("--json", &figures)] {
        command.arg(option).arg(path);
    }
    println!("a replay server, {} actors, a DQN learner and an evaluator, in one process:", options.actors);
    process::run(&mut command)?;
    let earned = evaluator_return(&figures)?;
    println!("learning curve: {}", curve.display());
    ensure!(earned >= ENOUGH, "the trained agent earns {earned:.1} on average, less than {ENOUGH}");
    println!("the trained agent earns {earned:.1} of 500 on average, without exploring");
    Ok(())
}

fn evaluator_return(figures: &Path) -> Result<f64> {
    let text =
        std::fs::read_to_string(figures).with_context(|| format!("{} was not written", figures.display()))?;
    let figures: serde_json::Value = serde_json::from_str(&text)?;
    figures["evaluator_return"].as_f64().context("the figures have no evaluator_return")
}
