//! `cargo xtask interop`: tests Relive's server and client against dm-reverb's over the wire, programs for dm-reverb on
//! Relive, flows against Ray's iterators, and runs on a Ray cluster.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::binary::{self, Profile};
use crate::{process, python, wheel};

#[derive(Args, Default)]
pub(crate) struct Options {
    /// One of the suites; by default all, or only `wire` if there are arguments for pytest
    #[arg(long)]
    suite: Option<Suite>,
    /// Additional arguments for pytest, for example `-k sampler -x`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pytest: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The server and the Rust client, each with dm-reverb at the other end
    Wire,
    /// Programs that import `reverb`, on dm-reverb and on the stand-in
    Programs,
    /// Random dataflows on Ray's iterators, on relive-flow and on the package's `relive.flow`
    Flow,
    /// Runs whose workers are Ray actors, on a cluster of several logical nodes
    Ray,
}

/// Builds Relive and runs the suites of `interop/`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let chosen = options.suite.or((!options.pytest.is_empty()).then_some(Suite::Wire));
    if chosen.is_none_or(|suite| suite == Suite::Wire) {
        wire(root, &python::INTEROP.python(root)?, &options.pytest)?;
    }
    if chosen.is_none_or(|suite| suite == Suite::Programs) {
        programs(root, &python::INTEROP.python(root)?, &options.pytest)?;
    }
    with_ray(root, chosen, &options.pytest)
}

fn wire(root: &Path, python: &Path, arguments: &[String]) -> Result<()> {
    let server = binary::build(root, "relive-cli", "relive", Profile::Dev)?;
    let client = binary::build(root, "relive-interop", "relive-interop", Profile::Dev)?;
    let mut command = Command::new(python);
    command.current_dir(root.join("interop")).args(["-m", "pytest"]);
    // Passed as one argument, because pytest treats arguments without dashes as folders before it knows our options.
    command.arg(format!("--relive={}", server.display()));
    command.arg(format!("--our-client={}", client.display()));
    process::run(in_parallel(&mut command).args(arguments))
}

/// Makes pytest run as many tests at the same time as this machine can.
fn in_parallel(pytest: &mut Command) -> &mut Command {
    pytest.arg("--numprocesses").arg(process::processors().to_string())
}

/// Runs the `chosen` suite if it needs Ray, or both suites that need Ray if no suite was chosen.
fn with_ray(root: &Path, chosen: Option<Suite>, arguments: &[String]) -> Result<()> {
    let is_wanted = |suite| chosen.is_none_or(|chosen| chosen == suite);
    if !is_wanted(Suite::Flow) && !is_wanted(Suite::Ray) {
        return Ok(());
    }
    let python = python::RAY.python(root)?;
    wheel::install(root, &python, Profile::Dev)?;
    if is_wanted(Suite::Flow) {
        let program = binary::build(root, "relive-interop", "relive-flow-programs", Profile::Dev)?;
        beside_ray(root, &python, ("flow", "--relive-flow", &program), arguments)?;
    }
    if is_wanted(Suite::Ray) {
        let program = binary::build(root, "relive-cli", "relive", Profile::Dev)?;
        beside_ray(root, &python, ("ray", "--relive", &program), arguments)?;
    }
    Ok(())
}

/// Runs a suite with Ray, which gets one of our programs as an option.
fn beside_ray(
    root: &Path,
    python: &Path,
    (folder, option, program): (&str, &str, &Path),
    pytest: &[String],
) -> Result<()> {
    let mut command = Command::new(python);
    command.current_dir(root.join("interop").join(folder)).args(["-m", "pytest"]);
    command.arg(format!("{option}={}", program.display()));
    process::run(command.args(pytest).env("RAY_USAGE_STATS_ENABLED", "0"))
}

/// Runs the same programs twice: the environment contains dm-reverb, and the second run puts the stand-in before it.
fn programs(root: &Path, python: &Path, arguments: &[String]) -> Result<()> {
    wheel::install(root, python, Profile::Dev)?;
    let standin = root.join("python/relive-as-reverb");
    for (kind, path) in [("dm", None), ("relive", Some(standin))] {
        let mut command = Command::new(python);
        command.current_dir(root.join("interop/standin")).args(["-m", "pytest"]);
        command.arg(format!("--reverb={kind}")).env_remove("PYTHONPATH");
        in_parallel(&mut command).args(arguments);
        if let Some(path) = path {
            command.env("PYTHONPATH", path);
        }
        process::run(command.env("TF_CPP_MIN_LOG_LEVEL", "2"))?;
    }
    with_tensorflow(root, python)
}

/// Runs the tests of the package that need TensorFlow, which the package's own environment lacks.
fn with_tensorflow(root: &Path, python: &Path) -> Result<()> {
    let mut command = wheel::pytest(root, python);
    command.args(["-m", "tensorflow"]);
    command.args(TENSORFLOW_TESTS.map(|name| format!("python/tests/test_{name}.py")));
    process::run(command.env("TF_CPP_MIN_LOG_LEVEL", "2"))
}

/// The other test files import packages that this environment lacks.
const TENSORFLOW_TESTS: [&str; 6] =
    ["datasets", "pattern_dataset", "protos", "replay_sample", "reverb_types", "structured"];
