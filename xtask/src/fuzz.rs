//! `cargo xtask fuzz`: fuzzes every decoder with libFuzzer for a given time.
//!
//! `cargo fuzz` would also work, but requires a nightly compiler or a variable that makes a stable one act as nightly.
//! libFuzzer needs counters and comparisons from the compiler, which a stable compiler emits as well; code without
//! `unsafe` is memory-safe without a sanitizer.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;

use crate::{process, workspace};

#[derive(Args)]
pub(crate) struct Options {
    /// The number of seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Fuzz only these targets
    #[arg(long)]
    only: Vec<String>,
}

impl Options {
    /// Returns options for a short run of every target. Such a run shows that the targets work, and finds failures near
    /// the committed corpus.
    pub(crate) fn short() -> Self {
        Self { seconds: 5, only: Vec::new() }
    }
}

/// Makes the compiler count coverage and report comparisons.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1";

/// The maximum length of an input in bytes.
const MAX_LEN: u32 = 8192;

/// Fuzzes each target, starting with the committed corpus. Failures are left in `fuzz/artifacts/`, and inputs with new
/// coverage in `target/fuzz/corpus/`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let metadata = workspace::metadata(root)?;
    let folder = metadata.target_directory.join("fuzz").into_std_path_buf();
    let targets = targets(root, &options.only)?;
    let host = process::host()?;
    let mut build = process::cargo();
    // Build scripts are not fuzzed; with an explicit target, they are built without the flags.
    build.current_dir(root).args([
        "build",
        "--release",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target",
        &host,
    ]);
    build.arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS);
    process::run(&mut build)?;
    let programs = folder.join(&host).join("release");
    in_parallel(&targets, |target| fuzz(root, &folder, &programs.join(target), target, options.seconds))
}

/// Fuzzes one target.
fn fuzz(root: &Path, folder: &Path, program: &Path, target: &str, seconds: u32) -> Result<()> {
    let (found, artifacts) = (folder.join("corpus").join(target), root.join("fuzz/artifacts").join(target));
    for folder in [&found, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut fuzz = Command::new(program);
    fuzz.arg(&found).arg(root.join("fuzz/corpus").join(target));
    fuzz.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={MAX_LEN}"));
    fuzz.args(["-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0"]);
    fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()));
    process::run(&mut fuzz).with_context(|| format!("{target}: the input is below {}", artifacts.display()))
}

/// Does the work for all targets, with one target per processor at a time. After a failure, it waits for the work in
/// progress and returns the first error.
fn in_parallel(targets: &[String], work: impl Fn(&str) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let one_after_the_other = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            // No other target begins after a failure.
            work(target).inspect_err(|_| next.store(targets.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..process::processors()).map(|_| scope.spawn(one_after_the_other)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

/// Returns the names of the targets; all requested ones must exist.
fn targets(root: &Path, only: &[String]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        all.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    all.sort();
    for name in only {
        ensure!(all.contains(name), "there is no fuzz target {name}; there are {}", all.join(", "));
    }
    all.retain(|name| only.is_empty() || only.contains(name));
    Ok(all)
}
