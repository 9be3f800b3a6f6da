//! The lengths of log files at a checkpoint, to which the files can be truncated.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Result, RlError};

/// The lengths of a logger's files at one moment. A resumed run repeats the reports that it made after the newest
/// checkpoint, so the files are first truncated to their mark.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The kind of files, such as `csv`.
    pub kind: String,
    /// The length of each file in bytes, by its name in the folder.
    pub files: BTreeMap<String, u64>,
}

impl Mark {
    /// Syncs the files of a folder to disk and records their lengths. `is_own` selects the logger's files by
    /// name.
    pub(super) fn of(kind: &str, folder: &Path, is_own: &dyn Fn(&str) -> bool) -> Result<Mark> {
        let mut files = BTreeMap::new();
        for name in names(folder, is_own)? {
            let path = folder.join(&name);
            let length = File::open(&path).and_then(|file| {
                file.sync_data()?;
                Ok(file.metadata()?.len())
            });
            files.insert(name, length.map_err(|error| RlError::file(&path, error))?);
        }
        Ok(Mark { kind: kind.to_owned(), files })
    }

    /// Truncates the files of a folder to their recorded lengths, and removes files that did not exist at the mark.
    pub(super) fn truncate(&self, folder: &Path, is_own: &dyn Fn(&str) -> bool) -> Result<()> {
        for name in names(folder, is_own)? {
            let path = folder.join(&name);
            let cut = match self.files.get(&name) {
                Some(length) => shorten(&path, *length),
                None => std::fs::remove_file(&path),
            };
            cut.map_err(|error| RlError::file(&path, error))?;
        }
        for name in self.files.keys().filter(|name| !folder.join(name).is_file()) {
            tracing::warn!(
                "{} is missing: the log lacks everything before this point",
                folder.join(name).display()
            );
        }
        Ok(())
    }
}

/// Truncates a file. A shorter file is left as it is, because padding it with zeros would corrupt the log.
fn shorten(path: &Path, length: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let there = file.metadata()?.len();
    if there < length {
        let place = path.display();
        tracing::warn!(
            "{place} has {there} bytes, but had {length} when the run was saved: part of the log is lost"
        );
        return Ok(());
    }
    file.set_len(length)
}

/// Returns the names of the logger's files in a folder.
fn names(folder: &Path, is_own: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
    let unread = |error| RlError::file(folder, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let name = entry.map_err(unread)?.file_name();
        names.extend(name.into_string().ok().filter(|name| is_own(name)));
    }
    Ok(names)
}
