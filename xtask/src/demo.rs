//! `cargo xtask demo`: the whole way of the data, with a real environment and the real dm-reverb client.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::binary::{self, Profile};
use crate::{process, python};

#[derive(Args)]
pub(crate) struct Options {
    /// How long the actors play, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How many actor processes play
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    actors: u32,
}

/// Builds the server, prepares Python, and hands over to `demo/cartpole.py`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    // Python first: when it is missing, nobody should wait for a build to hear of it.
    let python = python::INTEROP.python(root)?;
    let server = binary::build(root, "relive-cli", "relive", Profile::Release)?;
    let mut command = Command::new(python);
    command.current_dir(root).arg("demo/cartpole.py").arg("--server").arg(server);
    command.args(["--seconds", &options.seconds.to_string(), "--actors", &options.actors.to_string()]);
    process::run(&mut command)
}
