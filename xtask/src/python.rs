//! The virtual environment that the demo, the interop suite and the peer benchmarks share.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

const REQUIREMENTS: &str = "interop/requirements.txt";

/// The one CPython for which both dm-reverb 0.14.0 and its pinned companions have wheels.
const VERSION: &str = "3.11";

/// The Python of the virtual environment `.venv`, made or renewed first where that is needed.
pub(crate) fn environment(root: &Path) -> Result<PathBuf> {
    let folder = root.join(".venv");
    let python = folder.join("bin/python");
    let stamp = folder.join("requirements.stamp");
    let wanted =
        fs::read_to_string(root.join(REQUIREMENTS)).context(format!("cannot read {REQUIREMENTS}"))?;
    // The stamp is the whole file that was installed, written last: a broken-off installation has none.
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && version(&python).is_ok() {
        return Ok(python);
    }
    let base = find()?;
    println!("preparing {} with {} (about 600 MB on disk)", folder.display(), base.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).context(format!("cannot remove the stale {}", folder.display()))?;
    }
    create(&base, &folder)?;
    install(&python, root, &wanted)?;
    fs::write(&stamp, wanted).context(format!("cannot write {}", stamp.display()))?;
    Ok(python)
}

/// The first of `$PYTHON`, `python3.11`, `python3` and `python` that is the right version and works.
fn find() -> Result<PathBuf> {
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

/// `major.minor` of an interpreter.
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

/// Installs the pinned packages and nothing else, with a progress bar.
fn install(python: &Path, root: &Path, requirements: &str) -> Result<()> {
    let packages = requirements.lines().filter(|line| line.contains("==")).count();
    let mut child = Command::new(python)
        .args(["-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--progress-bar", "off"])
        .args(["--requirement", REQUIREMENTS])
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
        bail!("pip could not install {REQUIREMENTS} ({status}): {errors}");
    }
    Ok(())
}

/// Turns pip's lines into a bar: one step per package, and the last one for unpacking them all.
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
