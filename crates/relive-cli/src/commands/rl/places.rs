//! Checks before a run, which may be long, that its final outputs can be written.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use relive_rl::SavedPolicy;

use crate::failure::{Failure, Result};

/// Checks that a file can be written at a path, as thoroughly as is possible in advance. Folders in `made` will be
/// created by the run.
pub(super) fn expect_file(option: &str, path: &Path, made: &[&Path]) -> Result {
    if path.is_dir() {
        return Err(refused(option, path, &"it is a folder; give the name of a file"));
    }
    match missing_folder(path) {
        None => expect_writable(path).map_err(|error| refused(option, path, &error)),
        Some(folder) if made.iter().any(|made| made.starts_with(folder)) => Ok(()),
        Some(folder) => Err(refused(option, path, &format_args!("there is no folder {}", folder.display()))),
    }
}

/// Performs the same check for a policy, which is first written to a temporary file next to it.
pub(super) fn expect_policy(option: &str, path: &Path) -> Result {
    match missing_folder(path) {
        None => SavedPolicy::expect_place(path).map_err(|error| Failure::usage(error).of(option)),
        Some(_) => Ok(()),
    }
}

/// Creates a folder if necessary, and checks that files can be written to it.
pub(super) fn expect_folder(option: &str, path: &Path) -> Result {
    let probe = path.join(".relive");
    std::fs::create_dir_all(path)
        .and_then(|()| expect_writable(&probe))
        .map_err(|error| refused(option, path, &error))
}

/// Returns the folder that should contain the file, if that folder does not exist.
fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}

/// Opens a file for writing without changing anything.
fn expect_writable(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        // Opening a pipe would wait for its reader.
        return Ok(());
    }
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if is_new { std::fs::remove_file(path) } else { Ok(()) }
}

fn refused(option: &str, path: &Path, reason: &dyn Display) -> Failure {
    Failure::usage(format!("{option} {}: {reason}", path.display()))
}
