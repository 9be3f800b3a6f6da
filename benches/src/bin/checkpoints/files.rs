//! Plain copies, and what the system keeps of files in its memory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

/// A folder that is removed at the end, and before if it was left over.
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

/// All files below a folder.
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

/// Makes the system forget the contents of files, so that they are read from the disk.
pub(crate) fn forget(folder: &Path) -> io::Result<()> {
    for file in files(folder)? {
        let file = File::open(file)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Has the system hold the contents of files in its memory.
pub(crate) fn warm(folder: &Path) -> io::Result<()> {
    for file in files(folder)? {
        io::copy(&mut File::open(file)?, &mut io::sink())?;
    }
    Ok(())
}

/// Waits until nothing is left to be written to the disk, so that the next measurement begins as the one before.
pub(crate) fn settle() {
    rustix::fs::sync();
}
