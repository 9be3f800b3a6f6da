//! `cargo xtask bench`: Relive and dm-reverb, alternating on this machine.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::binary::{self, Profile};
use crate::{process, python, wheel};

#[derive(Args)]
pub(crate) struct Options {
    /// Compare the Python packages, each with its own server, instead of the servers under the dm-reverb client
    #[arg(long)]
    package: bool,
    /// Measure the cost of checkpoints on the disk of the folder given after `--`, and compare them with dm-reverb's
    #[arg(long, conflicts_with = "package")]
    checkpoints: bool,
    /// The whole comparison, with torchrl, cpprb, flashbax and numpy as well: targets, tables and a picture
    #[arg(long, conflicts_with_all = ["package", "checkpoints"])]
    peers: bool,
    /// Measure storing what agents store (transitions, frames, sequences, episodes), compared with numpy, cpprb,
    /// torchrl and flashbax
    #[arg(long, conflicts_with_all = ["package", "checkpoints", "peers"])]
    shapes: bool,
    /// Train every agent on a task that it must learn, with five seeds
    #[arg(long, conflicts_with_all = ["package", "checkpoints", "peers", "shapes"])]
    agents: bool,
    /// Arguments for `compare.py` or `package.py` of `benches/peers`, such as `--seconds 2 --rounds 1`; with
    /// `--checkpoints`, a folder and options, as in `/tmp/bench --gigabytes 4 --rounds 3 --only rates`; with `--peers`,
    /// arguments for `peers.py`, such as `--quick` or `--help`; with `--shapes`, arguments for `shapes.py`, such as
    /// `--seconds 0.5 --rounds 1`; with `--agents`, arguments for the program, such as `--only r2d2 --seeds 3`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds release binaries and runs the comparison.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    if options.agents {
        let program = binary::build(root, "relive-benches", "agents", Profile::Release)?;
        return process::run(Command::new(program).args(&options.arguments).current_dir(root));
    }
    if options.shapes {
        // This comparison does not need dm-reverb.
        return process::run(shapes(root, &options.arguments)?.current_dir(root));
    }
    let reverb = python::INTEROP.python(root)?;
    let mut command = match options {
        Options { checkpoints: true, arguments, .. } => checkpoints(root, &reverb, arguments)?,
        Options { peers: true, arguments, .. } => peers(root, &reverb, arguments)?,
        Options { package: true, arguments, .. } => packages(root, &reverb, arguments)?,
        Options { arguments, .. } => servers(root, &reverb, arguments)?,
    };
    process::run(command.current_dir(root))
}

fn checkpoints(root: &Path, reverb: &Path, arguments: &[String]) -> Result<Command> {
    let program = binary::build(root, "relive-benches", "checkpoints", Profile::Release)?;
    let mut command = Command::new(program);
    command.args(arguments).arg("--python").arg(reverb);
    Ok(command)
}

fn servers(root: &Path, reverb: &Path, arguments: &[String]) -> Result<Command> {
    let server = binary::build(root, "relive-cli", "relive", Profile::Release)?;
    let mut command = Command::new(reverb);
    command.arg("benches/peers/compare.py").arg("--server").arg(server).args(arguments);
    Ok(command)
}

fn packages(root: &Path, reverb: &Path, arguments: &[String]) -> Result<Command> {
    let relive = python::PACKAGE.python(root)?;
    wheel::install(root, &relive, Profile::Release)?;
    let mut command = Command::new(&relive);
    command
        .arg("benches/peers/package.py")
        .arg("--relive-python")
        .arg(&relive)
        .arg("--reverb-python")
        .arg(reverb)
        .args(arguments);
    Ok(command)
}

fn peers(root: &Path, reverb: &Path, arguments: &[String]) -> Result<Command> {
    let python = python::PEERS.python(root)?;
    wheel::install(root, &python, Profile::Release)?;
    let server = binary::build(root, "relive-cli", "relive", Profile::Release)?;
    let limits = binary::build(root, "relive-benches", "limits", Profile::Release)?;
    let mut command = Command::new(python);
    command.arg("benches/peers/peers.py").arg("--relive").arg(server).arg("--limits").arg(limits);
    command.arg("--reverb-python").arg(reverb).args(arguments);
    Ok(command)
}

fn shapes(root: &Path, arguments: &[String]) -> Result<Command> {
    let python = python::PEERS.python(root)?;
    wheel::install(root, &python, Profile::Release)?;
    let mut command = Command::new(python);
    command.arg("benches/peers/shapes.py").args(arguments);
    Ok(command)
}
