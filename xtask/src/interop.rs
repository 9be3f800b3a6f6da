//! `cargo xtask interop`: both sides against dm-reverb's own, over the wire.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::binary::{self, Profile};
use crate::{process, python};

#[derive(Args, Default)]
pub(crate) struct Options {
    /// What pytest is given beyond the suite, for example `-k sampler -x`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pytest: Vec<String>,
}

/// Builds the server and the client under test and runs the suite of `interop/`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let python = python::INTEROP.python(root)?;
    let server = binary::build(root, "relive-cli", "relive", Profile::Dev)?;
    let client = binary::build(root, "relive-interop", "relive-interop", Profile::Dev)?;
    let mut command = Command::new(python);
    command.current_dir(root.join("interop")).args(["-m", "pytest"]);
    // As one word: pytest looks for its folder in words without dashes, before it knows our options.
    command.arg(format!("--relive={}", server.display()));
    command.arg(format!("--our-client={}", client.display()));
    process::run(command.args(&options.pytest))
}
