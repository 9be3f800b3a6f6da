//! The virtual environments: one for dm-reverb, which pins its dependencies to old versions, and others for Relive's
//! package, for the buffers in the comparison, and for Ray.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// The only CPython for which dm-reverb 0.14.0 and its pinned dependencies have wheels.
const VERSION: &str = "3.11";

/// A virtual environment of this checkout, with exactly the packages of a list.
pub(crate) struct Environment {
    folder: &'static str,
    requirements: &'static str,
    /// The environment's size on disk.
    size: &'static str,
    /// Held while the environment is being prepared.
    preparing: Mutex<()>,
}

/// dm-reverb with its TensorFlow, for the interop suite and the peer benchmarks.
pub(crate) static INTEROP: Environment = Environment::new(".venv", "interop/requirements.txt", "2.5 GB");

/// Ray, for comparing flows with its iterators.
pub(crate) static RAY: Environment = Environment::new(".venv-ray", "interop/flow/requirements.txt", "300 MB");

/// The build requirements of the Python package, for comparisons.
pub(crate) static PACKAGE: Environment =
    Environment::new(".venv-package", "python/requirements.txt", "150 MB");

/// The same, with the requirements of its tests and examples, including PyTorch and JAX.
pub(crate) static PACKAGE_TESTS: Environment =
    Environment::new(".venv-tests", "python/requirements-tests.txt", "5 GB");

/// The other replay buffers, for the full comparison.
pub(crate) static PEERS: Environment =
    Environment::new(".venv-peers", "benches/peers/requirements.txt", "6.5 GB");

/// NVIDIA's kernel compiler, for `cargo xtask ptx`.
pub(crate) static NVRTC: Environment =
    Environment::new(".venv-nvrtc", "crates/relive-gpu/kernels/requirements.txt", "250 MB");

/// A local S3 server, for the tests of checkpoints in buckets.
pub(crate) static S3: Environment = Environment::new(".venv-s3", "interop/s3/requirements.txt", "140 MB");

/// Prepares environments on a thread, while the caller compiles. `Environment::python` waits until its environment is
/// prepared; if the preparation has failed, it tries again and reports the error.
pub(crate) fn prepare_in_background(root: &Path, environments: [&'static Environment; 3]) {
    let root = root.to_owned();
    thread::spawn(move || environments.into_iter().try_for_each(|each| each.python(&root).map(drop)));
}

impl Environment {
    const fn new(folder: &'static str, requirements: &'static str, size: &'static str) -> Self {
        Self { folder, requirements, size, preparing: Mutex::new(()) }
    }

    /// Returns the Python of the environment, which is created or updated first if necessary.
    pub(crate) fn python(&self, root: &Path) -> Result<PathBuf> {
        let _preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = root.join(self.folder);
        let python = folder.join("bin/python");
        let stamp = folder.join("requirements.stamp");
        let requirements = self.requirements;
        let wanted =
            fs::read_to_string(root.join(requirements)).context(format!("cannot read {requirements}"))?;
        // The stamp is a copy of the installed list, written last: an interrupted installation has none.
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && version(&python).is_ok() {
            return Ok(python);
        }
        let base = find()?;
        println!("preparing {} with {} (about {} on disk)", folder.display(), base.display(), self.size);
        if folder.exists() {
            fs::remove_dir_all(&folder).context(format!("cannot remove the stale {}", folder.display()))?;
        }
        create(&base, &folder)?;
        install(&python, root, requirements, &wanted)?;
        fs::write(&stamp, wanted).context(format!("cannot write {}", stamp.display()))?;
        Ok(python)
    }
}

/// Returns the first of `$PYTHON`, `python3.11`, `python3` and `python` that has the right version and works.
pub(crate) fn find() -> Result<PathBuf> {
    let chosen = std::env::var_os("PYTHON").map(PathBuf::from);
    let candidates = match chosen {
        Some(python) => vec![python],
        None => ["python3.11", "python3", "python"].map(PathBuf::from).to_vec(),
    };
    let mut seen = Vec::new();
    for candidate in candidates {
        match version(&candidate) {
            Ok(version) if version == VERSION => return Ok(candidate),
            Ok(version) => seen.push(format!("{} is {version}", candidate.display())),
            Err(_) => seen.push(format!("{} does not run", candidate.display())),
        }
    }
    bail!(
        "Python {VERSION} is needed (dm-reverb 0.14.0 has no wheel for later ones), but {}. \
         Install it, or name it in the variable PYTHON",
        seen.join(", ")
    )
}

/// Returns `major.minor` of an interpreter.
fn version(python: &Path) -> Result<String> {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new(python).args(["-c", code]).stderr(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{} ended with {}", python.display(), output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn create(base: &Path, folder: &Path) -> Result<()> {
    let output = Command::new(base).args(["-m", "venv"]).arg(folder).output()?;
    if !output.status.success() {
        bail!(
            "`{} -m venv` failed (on Debian and Ubuntu: apt install python{VERSION}-venv): {}{}",
            base.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// Installs exactly the pinned packages, with a progress bar.
fn install(python: &Path, root: &Path, requirements: &str, list: &str) -> Result<()> {
    let packages = list.lines().filter(|line| line.contains("==")).count();
    let mut child = Command::new(python)
        .args(["-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--progress-bar", "off"])
        .args(["--requirement", requirements])
        .current_dir(root)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("could not start pip")?;
    let stdout = child.stdout.take().context("pip has no output")?;
    let mut stderr = child.stderr.take().context("pip has no error output")?;
    let errors = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    follow(stdout, packages)?;
    let status = child.wait()?;
    if !status.success() {
        let errors = errors.join().ok().and_then(Result::ok).unwrap_or_default();
        bail!("pip could not install {requirements} ({status}): {errors}");
    }
    Ok(())
}

/// Converts pip's output to a progress bar with one step per package, and a last step for unpacking all of them.
fn follow(stdout: ChildStdout, packages: usize) -> Result<()> {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {wide_msg}")?;
    let bar = ProgressBar::new(u64::try_from(packages)? + 1).with_style(style);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if let Some(package) = line.strip_prefix("Collecting ") {
            bar.inc(1);
            bar.set_message(package.to_owned());
        } else if line.starts_with("Installing collected packages") {
            bar.set_message("unpacking");
        }
    }
    bar.finish_and_clear();
    Ok(())
}
