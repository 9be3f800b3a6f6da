//! What is asked of a file system while a checkpoint is written, apart so that tests can have one that fails.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

/// A file system. Every change of it in this crate comes through here.
pub(crate) trait Disk: Send + Sync {
    fn create_folders(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that is not there yet.
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>>;

    /// Makes the names in a folder last.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
}

/// A file that can be made to last.
pub(crate) trait DurableFile: Write {
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system of the machine.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn create_folders(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        // The lock tells other writers that the file is in use. Some network file systems know no locks.
        let _ = file.try_lock();
        Ok(Box::new(file))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
}

impl DurableFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl DurableFile for Box<dyn DurableFile> {
    fn sync(&mut self) -> io::Result<()> {
        self.as_mut().sync()
    }
}

/// Whether somebody has the file open who made it with [`RealDisk`].
pub(crate) fn is_being_written(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}
