//! Plain copies of files, and control of the system's page cache.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

/// A folder that is removed on drop, and at the start if an earlier run left it behind.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            println!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Returns all files below a folder.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => found.append(&mut files(&entry.path())?),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn size_bytes(folder: &Path) -> io::Result<u64> {
    files(folder)?.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}

/// Copies all files below a folder with the system's own call, one after the other.
pub(crate) fn copy(from: &Path, into: &Path, sync: bool) -> io::Result<Duration> {
    let files = files(from)?;
    let start = Instant::now();
    for (number, file) in files.iter().enumerate() {
        let copy = into.join(number.to_string());
        fs::copy(file, &copy)?;
        if sync {
            File::open(&copy)?.sync_all()?;
        }
    }
    Ok(start.elapsed())
}

/// Removes the files' contents from the page cache, so that they are read from the disk.
pub(crate) fn forget(folder: &Path) -> io::Result<()> {
    for file in files(folder)? {
        let file = File::open(file)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Loads the files' contents into the page cache.
pub(crate) fn warm(folder: &Path) -> io::Result<()> {
    for file in files(folder)? {
        io::copy(&mut File::open(file)?, &mut io::sink())?;
    }
    Ok(())
}

/// Waits until all writes to the disk are complete, so that every measurement starts from the same state.
pub(crate) fn settle() {
    rustix::fs::sync();
}
