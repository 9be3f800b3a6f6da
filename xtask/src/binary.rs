//! Builds the binaries that other programs run against.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::{process, workspace};

/// The optimization profile of a binary.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// The profile of the tests, which have usually built the binary already.
    Dev,
    /// The profile that is shipped and measured.
    Release,
}

impl Profile {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// Builds binary `name` of package `package` and returns its path.
pub(crate) fn build(root: &Path, package: &str, name: &str, profile: Profile) -> Result<PathBuf> {
    let mut command = process::cargo();
    command.current_dir(root).args(["build", "--bin", name, "--profile", profile.name()]);
    match profile {
        // Dependencies get the features that all selected packages and targets require. If this build selects the same
        // packages as the tests, with examples standing for all targets, no dependency is compiled again.
        Profile::Dev => command.args(["--workspace", "--examples"]),
        Profile::Release => command.args(["--package", package]),
    };
    process::run(&mut command)?;
    let target = workspace::metadata(root)?.target_directory;
    let binary = target.join(profile.folder()).join(name).into_std_path_buf();
    ensure!(binary.is_file(), "cargo built {name}, but not at {}", binary.display());
    Ok(binary)
}
