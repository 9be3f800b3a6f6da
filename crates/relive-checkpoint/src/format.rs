//! The formats of checkpoints, and how to tell which one something is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::reverb::is_checkpoint;
use crate::{Error, ErrorKind};

/// A format of checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Relive's own (`docs/checkpoint-format.md`): chunks are written once and shared by successive checkpoints.
    #[default]
    Relive,
    /// dm-reverb's: every checkpoint is a folder of its own with everything in it.
    Reverb,
}

impl Format {
    /// The name by which users choose it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Relive => "relive",
            Self::Reverb => "reverb",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Relive, Self::Reverb]
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| format!("{text:?} is no format of checkpoints; there are relive and reverb"))
    }
}

/// What a location names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder or bucket that holds checkpoints, or may.
    Root(String),
    /// One checkpoint.
    Checkpoint {
        /// Its format.
        format: Format,
        /// The folder or bucket in which it lies.
        root: String,
        /// Its name there.
        name: String,
    },
}

/// Digits of the number in the name of a checkpoint file.
const NUMBER_DIGITS: usize = 10;

/// Says what `location`, a path or a URL, names: by its name, and for folders of this machine by what lies in it.
///
/// ```
/// use relive_checkpoint::{Format, Location, detect};
///
/// let place = detect("s3://bucket/run-7/checkpoint-0000000042.relive")?;
/// let expected = Location::Checkpoint {
///     format: Format::Relive,
///     root: "s3://bucket/run-7".to_owned(),
///     name: "checkpoint-0000000042.relive".to_owned(),
/// };
/// assert_eq!(place, expected);
/// assert_eq!(detect("s3://bucket/run-7")?, Location::Root("s3://bucket/run-7".to_owned()));
/// # Ok::<(), relive_checkpoint::Error>(())
/// ```
///
/// # Errors
/// A path of this machine at which there is nothing, or another file.
pub fn detect(location: &str) -> Result<Location, Error> {
    let location = location.trim_end_matches('/');
    let (root, name) = location.rsplit_once('/').unwrap_or((".", location));
    let path = local_path(location);
    let checkpoint =
        |format| Ok(Location::Checkpoint { format, root: root.to_owned(), name: name.to_owned() });
    match path {
        None if is_checkpoint_file(name) => checkpoint(Format::Relive),
        None => Ok(Location::Root(location.to_owned())),
        Some(path) if !path.exists() => Err(nothing_there(location)),
        Some(path) if path.is_file() && is_checkpoint_file(name) => checkpoint(Format::Relive),
        Some(path) if is_checkpoint(&path) => checkpoint(Format::Reverb),
        Some(path) if path.is_dir() => Ok(Location::Root(location.to_owned())),
        Some(_) => {
            let text = format!("{location} is no checkpoint, nor a folder of checkpoints");
            Err(Error::plain(ErrorKind::Location, text))
        }
    }
}

/// The path of a location of this machine.
pub(crate) fn local_path(location: &str) -> Option<PathBuf> {
    match location.split_once("://") {
        None if location.is_empty() => Some(PathBuf::from("/")),
        None => Some(PathBuf::from(location)),
        Some(("file", path)) => Some(PathBuf::from(path)),
        Some(_) => None,
    }
}

/// A path as a location.
pub(crate) fn location_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn nothing_there(location: &str) -> Error {
    Error::plain(ErrorKind::Location, format!("there is nothing at {location}"))
}

/// Whether a file of this name is a checkpoint in Relive's format.
fn is_checkpoint_file(name: &str) -> bool {
    let number = name.strip_prefix("checkpoint-").and_then(|rest| rest.strip_suffix(".relive"));
    number.is_some_and(|number| number.len() == NUMBER_DIGITS && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_say_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = location_of(folder.path());
        assert_eq!(detect(&format!("{root}/")).unwrap(), Location::Root(root.clone()));
        let ours = "checkpoint-0000000001.relive";
        std::fs::write(folder.path().join(ours), "").unwrap();
        let place =
            |format, name: &str| Location::Checkpoint { format, root: root.clone(), name: name.to_owned() };
        assert_eq!(detect(&format!("{root}/{ours}")).unwrap(), place(Format::Relive, ours));
        let theirs = "2026-11-20T11:16:35.669974815+00:00";
        std::fs::create_dir(folder.path().join(theirs)).unwrap();
        std::fs::write(folder.path().join(theirs).join("tables.tfrecord"), "").unwrap();
        assert_eq!(detect(&format!("{root}/{theirs}/")).unwrap(), place(Format::Reverb, theirs));
    }

    #[test]
    fn what_is_not_there_and_other_files_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let other = location_of(&folder.path().join("checkpoint-1.relive"));
        assert_eq!(detect(&other).unwrap_err().to_string(), format!("there is nothing at {other}"));
        std::fs::write(&other, "").unwrap();
        let expected = format!("{other} is no checkpoint, nor a folder of checkpoints");
        assert_eq!(detect(&other).unwrap_err().to_string(), expected);
    }

    #[test]
    fn formats_have_names() {
        for format in [Format::Relive, Format::Reverb] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("other".parse::<Format>().unwrap_err().contains("relive and reverb"));
    }
}
