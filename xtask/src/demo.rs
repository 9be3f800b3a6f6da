//! `cargo xtask demo`: the whole way of the data, with a real environment.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::binary::Profile;
use crate::python::PACKAGE;
use crate::{process, wheel};

#[derive(Args)]
pub(crate) struct Options {
    /// How long the actors play, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How many actor processes play
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    actors: u32,
}

/// Prepares Python, builds and installs the package, and hands over to `demo/cartpole.py`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    // Python first: when it is missing, nobody should wait for a build to hear of it.
    let python = PACKAGE.python(root)?;
    wheel::install(root, &python, Profile::Release)?;
    let mut command = Command::new(python);
    command.current_dir(root).arg("demo/cartpole.py");
    command.args(["--seconds", &options.seconds.to_string(), "--actors", &options.actors.to_string()]);
    process::run(&mut command)
}
