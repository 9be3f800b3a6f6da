//! Builds the Python package as a wheel and installs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::binary::Profile;
use crate::{process, python, workspace};

/// Builds the wheel and installs it for `python`, replacing an older one.
pub(crate) fn install(root: &Path, python: &Path, profile: Profile) -> Result<()> {
    let wheel = build(root, python, profile)?;
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--force-reinstall",
        "--disable-pip-version-check",
    ]);
    process::run(pip.arg(wheel))
}

/// Returns a pytest command with the package's settings, run in a folder in which the sources do not shadow the
/// installed package.
pub(crate) fn pytest(root: &Path, python: &Path) -> Command {
    let mut command = Command::new(python);
    command.current_dir(root).args(["-m", "pytest", "--config-file", "python/pyproject.toml"]);
    command.env_remove("PYTHONPATH");
    command
}

/// Builds the wheel with the maturin of `python`'s environment.
fn build(root: &Path, python: &Path, profile: Profile) -> Result<PathBuf> {
    let wheels = workspace::metadata(root)?.target_directory.join("wheels").join(profile.name());
    let wheels = wheels.into_std_path_buf();
    if wheels.exists() {
        fs::remove_dir_all(&wheels).context(format!("cannot remove {}", wheels.display()))?;
    }
    // The wheel suits every interpreter. If each environment specified its own interpreter, cargo would compile the
    // module for each of them.
    let interpreter = python::find()?;
    let mut command = Command::new(python);
    command.current_dir(root.join("python")).env("PYO3_PYTHON", &interpreter);
    command.args(["-m", "maturin", "build", "--profile", profile.name(), "--out"]).arg(&wheels);
    command.arg("--interpreter").arg(&interpreter);
    if matches!(profile, Profile::Dev) {
        command.args(["--features", "as-tested"]);
    }
    process::hide_package(&mut command);
    process::run(&mut command)?;
    let built = fs::read_dir(&wheels).context(format!("maturin left nothing in {}", wheels.display()))?;
    let mut built: Vec<PathBuf> = built.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    match (built.pop(), built.is_empty()) {
        (Some(wheel), true) => Ok(wheel),
        _ => bail!("maturin did not leave exactly one wheel in {}", wheels.display()),
    }
}
