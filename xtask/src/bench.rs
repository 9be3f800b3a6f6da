//! `cargo xtask bench`: our server beside dm-reverb's, in turn, on this machine.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::binary::{self, Profile};
use crate::{process, python};

#[derive(Args)]
pub(crate) struct Options {
    /// What `benches/peers/compare.py` is given, for example `--seconds 2 --rounds 1`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds the server as it is shipped and runs the comparison.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let python = python::INTEROP.python(root)?;
    let server = binary::build(root, "relive-cli", "relive", Profile::Release)?;
    let mut command = Command::new(python);
    command.current_dir(root).arg("benches/peers/compare.py").arg("--server").arg(server);
    process::run(command.args(&options.arguments))
}
