//! `cargo xtask ci`: the checks that must pass before a merge.

use std::path::Path;

use anyhow::Result;

use crate::phases::Phases;
use crate::{dependencies, fuzz, interop, process, python, test};

/// Runs every phase, starting with the phases that fail fastest, and prints how long each phase took.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut phases = Phases::default();
    phases.run("fmt", || cargo(root, &["fmt", "--all", "--check"]))?;
    phases.run("dependencies", || dependencies::run(root))?;
    python::prepare_in_background(root, [&python::PACKAGE_TESTS, &python::INTEROP, &python::RAY]);
    test::run_in(root, &mut phases)?;
    phases.run("clippy", || {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])
    })?;
    phases.run("features", || features(root))?;
    phases.run("docs", || docs(root))?;
    phases.run("fuzz", || fuzz::run(root, &fuzz::Options::short()))?;
    phases.run("interop", || interop::run(root, &interop::Options::default()))?;
    println!("\n{}", phases.summary());
    Ok(())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    process::run(process::cargo().current_dir(root).args(arguments))
}

/// All other builds use all features, because the program and the Python module enable them.
fn features(root: &Path) -> Result<()> {
    cargo(root, &["check", "--package", "relive-checkpoint", "--no-default-features", "--all-targets"])?;
    cargo(root, &["check", "--package", "relive", "--features", "gpu"])?;
    cargo(root, &["check", "--package", "relive", "--features", "rl"])
}

fn docs(root: &Path) -> Result<()> {
    let mut command = process::cargo();
    command.current_dir(root).env("RUSTDOCFLAGS", "--deny warnings");
    // Documents libraries only: the program `relive` would overwrite the pages of the library `relive`.
    process::run(command.args(["doc", "--workspace", "--no-deps", "--lib"]))
}
