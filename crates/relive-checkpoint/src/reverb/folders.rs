//! The contents of the folder in which checkpoints are stored.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{DONE, FILES, TABLES};
use super::name::Time;
use crate::Error;
use crate::storage::disk::{Disk, is_being_written};

/// The checkpoints of a root, and the leftovers of writers that did not finish.
#[derive(Debug, Default)]
pub(super) struct Folders {
    /// Complete checkpoints, oldest first.
    pub(super) whole: Vec<(Time, PathBuf)>,
    /// Complete checkpoints whose names are not times, such as renamed or copied ones, oldest first by modification
    /// time. They are loaded only if there is no other checkpoint, and never removed.
    pub(super) renamed: Vec<(Time, PathBuf)>,
    /// Folders that have a checkpoint's name but lack the last file.
    pub(super) incomplete: Vec<(Time, PathBuf)>,
    /// Folders of checkpoints that were being written or removed.
    pub(super) drafts: Vec<PathBuf>,
    /// An error for each entry that cannot be examined. If it has a checkpoint's name, it also counts as incomplete.
    unclear: Vec<Error>,
}

impl Folders {
    /// Lists `root`. A root that does not exist is treated as empty. An entry that cannot be examined is an error,
    /// because an older checkpoint must not pass for the newest one.
    pub(super) fn list(root: &Path) -> Result<Self, Error> {
        let mut found = Self::read(root)?;
        found.unclear.pop().map_or(Ok(found), Err)
    }

    /// Like [`list`](Self::list), but for the writer of a new checkpoint. It needs only the times of the others, which
    /// are in the names, so an entry that cannot be examined is only logged as a warning.
    pub(super) fn list_for_writer(root: &Path) -> Result<Self, Error> {
        let found = Self::read(root)?;
        for error in &found.unclear {
            tracing::warn!(%error, "ignored an entry when looking for older checkpoints");
        }
        Ok(found)
    }

    fn read(root: &Path) -> Result<Self, Error> {
        let broken = |source| Error::io("list", root, source);
        let mut found = Self::default();
        let entries = match fs::read_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries.map_err(broken)?,
        };
        for entry in entries {
            let path = entry.map_err(broken)?.path();
            if let Err(source) = found.sort_in(&path) {
                found.unclear.push(Error::io("examine", &path, source));
                found.incomplete.extend(Time::in_name(&path).map(|time| (time, path)));
            }
        }
        for folders in [&mut found.whole, &mut found.renamed, &mut found.incomplete] {
            folders.sort();
        }
        Ok(found)
    }

    /// Adds an entry of the root if it is a checkpoint or a draft.
    fn sort_in(&mut self, path: &Path) -> io::Result<()> {
        let time = Time::in_name(path);
        if time.is_none() && !is_draft(path) {
            if is_renamed(path) {
                self.renamed.push((Time::of_folder(path), path.to_owned()));
            }
            return Ok(());
        }
        if !is_folder(fs::metadata(path))? {
            return Ok(());
        }
        match time {
            Some(time) if path.join(DONE).try_exists()? => self.whole.push((time, path.to_owned())),
            Some(time) => self.incomplete.push((time, path.to_owned())),
            None => self.drafts.push(path.to_owned()),
        }
        Ok(())
    }

    /// Returns the latest time of a checkpoint, complete or not.
    pub(super) fn latest_time(&self) -> Option<Time> {
        let last = |folders: &[(Time, PathBuf)]| folders.last().map(|(time, _)| *time);
        last(&self.whole).max(last(&self.incomplete))
    }
}

/// Returns whether an entry is a folder; `false` for an entry that no longer exists.
fn is_folder(entry: io::Result<fs::Metadata>) -> io::Result<bool> {
    match entry {
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether a folder is a checkpoint, complete or not, regardless of its name.
pub(crate) fn is_checkpoint(folder: &Path) -> bool {
    folder.join(DONE).is_file() || folder.join(TABLES).is_file()
}

/// Returns whether a folder is a complete checkpoint.
pub(crate) fn is_whole(folder: &Path) -> bool {
    folder.join(DONE).is_file()
}

/// Returns whether an entry whose name is not a time is a complete checkpoint. Hidden entries are not, nor are entries
/// that cannot be examined, because such a name usually belongs to something else.
fn is_renamed(entry: &Path) -> bool {
    let is_hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && is_whole(entry) && entry.join(TABLES).is_file()
}

/// Returns the name of the folder in which the checkpoint `name` is written. Loaders ignore it.
pub(super) fn draft_name(name: &str) -> String {
    format!(".{name}.tmp")
}

fn is_draft(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.and_then(|name| name.strip_prefix('.')?.strip_suffix(".tmp"));
    name.and_then(Time::from_name).is_some()
}

/// Removes the leftovers of an interrupted writer, unless a process is writing there or the folder contains foreign
/// files.
pub(super) fn remove_draft(disk: &dyn Disk, folder: &Path) {
    if FILES.iter().any(|file| is_being_written(&folder.join(file))) {
        return;
    }
    if let Err(error) = remove(disk, folder) {
        tracing::warn!(folder = %folder.display(), %error, "cannot remove the remains of an unfinished checkpoint");
    }
}

/// Removes a checkpoint unless it contains foreign files. The first operation already makes the checkpoint incomplete.
pub(super) fn remove_checkpoint(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    let refused = |source| Error::io("remove the checkpoint", folder, source);
    match foreign_file(folder).map_err(refused)? {
        Some(name) => Err(refused(io::Error::other(format!(
            "it contains {name}, which does not belong to a checkpoint"
        )))),
        None => remove_whole(disk, folder).map_err(refused),
    }
}

fn remove_whole(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let draft = folder.with_file_name(draft_name(name));
    disk.rename(folder, &draft)?;
    remove(disk, &draft)
}

/// Removes Relive's files and then the folder. Fails if other files remain.
fn remove(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    for file in FILES {
        match disk.remove_file(&folder.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    disk.remove_folder(folder)
}

fn foreign_file(folder: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !FILES.iter().any(|file| name == *file) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_cannot_be_examined_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let found = |entry| is_folder(entry).map_err(|error| error.kind());
        assert_eq!(found(fs::metadata(folder.path())), Ok(true));
        assert_eq!(found(fs::metadata(folder.path().join("removed"))), Ok(false));
        let refused = io::ErrorKind::PermissionDenied;
        assert_eq!(found(Err(refused.into())), Err(refused));
        #[cfg(unix)]
        {
            let endless = folder.path().join("2026-11-20T11:16:35+00:00");
            std::os::unix::fs::symlink(&endless, &endless).unwrap();
            let error = Folders::list(folder.path()).unwrap_err();
            let named = format!("cannot examine {}: ", endless.display());
            assert!(error.to_string().starts_with(&named), "{error}");
            let listed = Folders::list_for_writer(folder.path()).unwrap();
            assert_eq!((listed.whole.len(), listed.latest_time()), (0, Time::in_name(&endless)));
            fs::rename(endless, folder.path().join("of others")).unwrap();
            assert_eq!(Folders::list(folder.path()).unwrap().whole, []);
        }
    }
}
