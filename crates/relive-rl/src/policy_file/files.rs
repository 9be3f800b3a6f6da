//! Atomic file writes.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Result, RlError};

/// Writes a file atomically, through a temporary file next to it. Symbolic links are followed: their target is
/// replaced. Anything that is not a regular file, such as a device or a pipe, is written directly.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    written(path, &|file| file.write_all(bytes)).map_err(|error| RlError::file(path, error))
}

/// Checks that [`write_whole`] could currently write to this path.
pub(super) fn expect_writable(path: &Path) -> Result<()> {
    // Anything other than a regular file may be a pipe, which blocks until it has a reader.
    let (_, Some(partial)) = place(path) else { return Ok(()) };
    let opened = File::create_new(&partial).and_then(|_| std::fs::remove_file(&partial));
    opened.map_err(|error| RlError::file(path, error))
}

/// Returns the target of a path and the temporary file next to it. Returns `None` if the target is not a regular file.
fn place(path: &Path) -> (PathBuf, Option<PathBuf>) {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return (path, None);
    }
    let mut partial = path.as_os_str().to_owned();
    // A new name each time: a file of a process that was killed does not matter, and others cannot place a link there.
    let number = RandomState::new().hash_one(std::process::id());
    partial.push(format!(".{number:016x}.partial"));
    (path, Some(partial.into()))
}

fn written(path: &Path, write: &dyn Fn(&mut File) -> io::Result<()>) -> io::Result<()> {
    let (path, partial) = place(path);
    let Some(partial) = partial else { return write(&mut File::create(&path)?) };
    let mut file = File::create_new(&partial)?;
    let moved = write(&mut file).and_then(|()| std::fs::rename(&partial, &path));
    if moved.is_err() {
        // A partial file must not take up space on a full disk. The error to report is that of the write.
        let _ = std::fs::remove_file(&partial);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_write_leaves_no_file_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy");
        let half = |file: &mut File| file.write_all(b"half").and(Err(io::ErrorKind::StorageFull.into()));
        assert!(written(&path, &half).is_err());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        write_whole(&path, b"whole").unwrap();
        assert!(written(&path, &half).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    /// In a folder where others can create files, a temporary file with a known name could be their link.
    #[cfg(unix)]
    #[test]
    fn a_temporary_file_has_a_new_name_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let [path, target, planted] =
            ["policy", "target", "policy.partial"].map(|name| folder.path().join(name));
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &planted).unwrap();
        expect_writable(&path).unwrap();
        write_whole(&path, b"whole").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(folder.path().read_dir().unwrap().count(), 3);
        let names = [(); 100].map(|()| place(&path).1.unwrap());
        assert_eq!(std::collections::HashSet::from(names).len(), 100);
    }
}
