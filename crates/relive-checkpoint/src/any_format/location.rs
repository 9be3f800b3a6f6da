//! Interprets locations.

use std::path::{Path, PathBuf};

use crate::names::{checkpoint_number, split_root};
use crate::reverb::is_checkpoint;
use crate::{Error, ErrorKind, Format};

/// The meaning of a path or URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder or bucket that contains, or may contain, checkpoints.
    Root(String),
    /// One checkpoint.
    Checkpoint {
        /// The format of the checkpoint.
        format: Format,
        /// The folder or bucket that contains the checkpoint.
        root: String,
    },
}

impl Location {
    /// Returns the format of a checkpoint, or `None` for a root, which may have checkpoints of both formats.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        match self {
            Self::Root(_) => None,
            Self::Checkpoint { format, .. } => Some(*format),
        }
    }
}

/// Determines what the path or URL `location` refers to, from its name and, for paths, also from the files that exist
/// there.
///
/// ```
/// use relive_checkpoint::{Format, Location, locate};
///
/// let root = "s3://bucket/run-7".to_owned();
/// assert_eq!(locate(&root)?, Location::Root(root.clone()));
/// let checkpoint = locate("s3://bucket/run-7/checkpoint-0000000042.relive")?;
/// assert_eq!(checkpoint, Location::Checkpoint { format: Format::Relive, root });
/// # Ok::<(), relive_checkpoint::Error>(())
/// ```
///
/// # Errors
/// `Location` if nothing exists at the path, or if it is a file that is not a checkpoint.
pub fn locate(location: &str) -> Result<Location, Error> {
    let location = trimmed(location);
    let (root, name) = split_root(location);
    let checkpoint = |format| Ok(Location::Checkpoint { format, root: root.to_owned() });
    let is_ours = checkpoint_number(name).is_some();
    match local_path(location) {
        None if is_ours => checkpoint(Format::Relive),
        None => Ok(Location::Root(location.to_owned())),
        Some(path) if !path.exists() => misplaced(format!("{location} does not exist")),
        Some(path) if path.is_file() && is_ours => checkpoint(Format::Relive),
        Some(path) if is_checkpoint(&path) => checkpoint(Format::Reverb),
        Some(path) if path.is_dir() => Ok(Location::Root(location.to_owned())),
        Some(_) => misplaced(format!("{location} is neither a checkpoint nor a folder of checkpoints")),
    }
}

/// Returns the path of a location on this machine.
pub(super) fn local_path(location: &str) -> Option<PathBuf> {
    match location.split_once("://") {
        None => Some(PathBuf::from(location)),
        Some(("file", path)) => Some(PathBuf::from(path)),
        Some(_) => None,
    }
}

/// Returns a location that stays the same if the process changes its working directory. URLs are returned unchanged.
pub(super) fn absolute(location: &str) -> String {
    let is_url = location.contains("://");
    let path = (!is_url).then(|| std::path::absolute(location).ok()).flatten();
    path.as_deref().and_then(Path::to_str).unwrap_or(location).to_owned()
}

/// Returns whether two locations are the same root. The same folder can have several paths.
pub(super) fn is_same_root(one: &str, other: &str) -> bool {
    let real = |location| local_path(location)?.canonicalize().ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// Returns a path as a location.
pub(super) fn location_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Removes trailing slashes, which have no meaning except for the root of a file system.
pub(super) fn trimmed(location: &str) -> &str {
    match location.trim_end_matches('/') {
        "" if location.starts_with('/') => "/",
        trimmed => trimmed,
    }
}

fn misplaced(text: String) -> Result<Location, Error> {
    Err(Error::plain(ErrorKind::Location, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_classified_by_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let root = location_of(folder.path());
        assert_eq!(locate(&format!("{root}/")).unwrap(), Location::Root(root.clone()));
        let ours = "checkpoint-0000000001.relive";
        std::fs::write(folder.path().join(ours), "").unwrap();
        let checkpoint = |format| Location::Checkpoint { format, root: root.clone() };
        assert_eq!(locate(&format!("{root}/{ours}")).unwrap(), checkpoint(Format::Relive));
        let theirs = "2026-11-20T11:16:35.669974815+00:00";
        std::fs::create_dir(folder.path().join(theirs)).unwrap();
        std::fs::write(folder.path().join(theirs).join("tables.tfrecord"), "").unwrap();
        assert_eq!(locate(&format!("{root}/{theirs}/")).unwrap(), checkpoint(Format::Reverb));
        assert_eq!(locate("/").unwrap(), Location::Root("/".to_owned()));
    }

    #[test]
    fn missing_paths_and_other_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let other = location_of(&folder.path().join("checkpoint-1.relive"));
        assert_eq!(locate(&other).unwrap_err().to_string(), format!("{other} does not exist"));
        std::fs::write(&other, "").unwrap();
        let expected = format!("{other} is neither a checkpoint nor a folder of checkpoints");
        assert_eq!(locate(&other).unwrap_err().to_string(), expected);
    }
}
