//! `cargo xtask test`: every test that needs only this repository.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::binary::Profile;
use crate::phases::Phases;
use crate::python::PACKAGE_TESTS;
use crate::s3::Server;
use crate::{process, tidy, wheel};

/// Runs all tests and prints how long each part took.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut phases = Phases::default();
    run_in(root, &mut phases)?;
    println!("\n{}", phases.summary());
    Ok(())
}

/// Runs all tests as phases of a longer run.
pub(crate) fn run_in(root: &Path, phases: &mut Phases) -> Result<()> {
    phases.run("tidy", || tidy::run(root))?;
    let buckets = Server::start(root)?;
    phases.run("tests", || workspace(root, &buckets))?;
    phases.run("loom", || loom(root))?;
    phases.run("python", || python(root, &buckets))
}

/// Tests all crates.
fn workspace(root: &Path, buckets: &Server) -> Result<()> {
    let mut command = process::cargo();
    command.current_dir(root).args(["test", "--workspace"]).envs(buckets.environment());
    // Many tests wait for other processes.
    command.env("RUST_TEST_THREADS", (2 * process::processors()).to_string());
    process::run(&mut command)
}

/// Tests the Python package as users install it: types, then tests with the examples, then the module `reverb` on top
/// of it.
fn python(root: &Path, buckets: &Server) -> Result<()> {
    let python = PACKAGE_TESTS.python(root)?;
    wheel::install(root, &python, Profile::Dev)?;
    process::run(Command::new(&python).current_dir(root.join("python")).args(["-m", "mypy"]))?;
    // A worker runs whole files, because the tests of a file share fixtures.
    let mut tests = wheel::pytest(root, &python);
    tests
        .args(["python/tests", "--dist", "loadfile", "--numprocesses"])
        .arg(process::processors().to_string());
    process::run(tests.envs(buckets.environment()))?;
    let stand_in = root.join("python/relive-as-reverb");
    process::run(wheel::pytest(root, &python).arg(stand_in.join("tests")).env("PYTHONPATH", stand_in))
}

/// Tests the waiting protocols under every interleaving. A cfg replaces the observed types with loom's. Since the cfg
/// changes every crate, this build has its own folder, so that the ordinary build is not discarded.
fn loom(root: &Path) -> Result<()> {
    let mut command = process::cargo();
    // Most of the time is spent on the interleavings, so they run optimized. Optimizing across crates would not pay
    // off: it takes as much time as it saves.
    command.current_dir(root).env("RUSTFLAGS", "--cfg relive_loom").env("CARGO_PROFILE_RELEASE_LTO", "off");
    command.args([
        "test",
        "--package",
        "relive-engine",
        "--package",
        "relive-flow",
        "--package",
        "relive-gpu-protocol",
        "--test",
        "loom",
        "--release",
        "--target-dir",
        "target/loom",
    ]);
    process::run(&mut command)
}
