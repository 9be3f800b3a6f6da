//! `cargo xtask soak`: runs the server under every kind of load and fault at once, for a given time.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::binary::{self, Profile};
use crate::{process, workspace};

#[derive(Args)]
pub(crate) struct Options {
    /// How many minutes the run takes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// The seed of all random choices: which items, when the server is killed, when connections are cut
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Run the server in a network namespace whose cable is unplugged and slowed down; requires root and iproute2
    #[arg(long)]
    namespace: bool,
    /// Use the test profile, which builds faster, instead of the release profile
    #[arg(long)]
    dev: bool,
}

/// Builds the server and the soak program, and runs them. Checkpoints and the server's log go to `target/soak/`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let profile = if options.dev { Profile::Dev } else { Profile::Release };
    let server = binary::build(root, "relive-cli", "relive", profile)?;
    let soak = binary::build(root, "relive-benches", "soak", profile)?;
    let folder = workspace::metadata(root)?.target_directory.join("soak").into_std_path_buf();
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let mut command = Command::new(soak);
    command.arg(server).arg(folder);
    command.args(["--minutes", &options.minutes.to_string(), "--seed", &options.seed.to_string()]);
    if options.namespace {
        command.args(["--namespace", "yes"]);
    }
    if let Some(json) = &options.json {
        command.arg("--json").arg(json);
    }
    process::run(&mut command)
}
