//! What is asked of a file system while a checkpoint is written, apart so that tests can have one that fails.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use super::own_lock::OwnLock;
use super::seam::Source;

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

    /// Makes a file last that somebody has written.
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    /// Gives a file a second name.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    /// Opens a file to be read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        RealFile::open(path).map(|file| Box::new(file) as Box<dyn Source>)
    }

    /// Names and sizes of the files in a folder, in no order.
    fn read_folder(&self, path: &Path) -> io::Result<Vec<(String, u64)>> {
        read_folder(path)
    }

    /// Locks a file, which is made if it is not there, against every other process until the result is dropped, and
    /// writes `note` into it.
    fn lock(&self, path: &Path, note: &str) -> io::Result<Locked> {
        lock(path, note)
    }
}

/// What came of locking a file.
pub(crate) enum Locked {
    /// It is ours until this is dropped.
    Ours(Box<dyn Send + Sync>),
    /// Somebody else has it, whose note this is.
    Theirs(String),
}

/// A file that can be made to last.
pub(crate) trait DurableFile: Write + Send {
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

/// A file of the machine, to be read anywhere.
struct RealFile {
    file: File,
    size_bytes: u64,
}

impl RealFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        match meta.is_file() {
            true => Ok(Self { file, size_bytes: meta.len() }),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")),
        }
    }
}

impl Source for RealFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[cfg(unix)]
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !into.is_empty() {
            let read = std::os::windows::fs::FileExt::seek_read(&self.file, into, offset)?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            into = into.get_mut(read..).unwrap_or_default();
            offset += read as u64;
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn read_if_near(&self, into: &mut [u8], offset: u64) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};
        let length = into.len();
        let read = preadv2(&self.file, &mut [io::IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT);
        read == Ok(length)
    }

    #[cfg(target_os = "linux")]
    fn read_ahead(&self, range: std::ops::Range<u64>) {
        use rustix::fs::{Advice, fadvise};
        // What is no advice to a file system is read when it is asked for.
        let Some(length) = range.end.checked_sub(range.start).and_then(std::num::NonZeroU64::new) else {
            return;
        };
        let _ = fadvise(&self.file, range.start, Some(length), Advice::WillNeed);
    }
}

fn read_folder(path: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Whoever else works in the folder may have removed it by now. Names that are no text are none of ours.
        let (Ok(meta), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else { continue };
        if meta.is_file() {
            found.push((name, meta.len()));
        }
    }
    Ok(found)
}

fn lock(path: &Path, note: &str) -> io::Result<Locked> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut theirs = String::new();
            file.take(MAX_NOTE_BYTES).read_to_string(&mut theirs)?;
            return Ok(Locked::Theirs(theirs));
        }
        Err(TryLockError::Error(error)) => {
            tracing::warn!(file = %path.display(), %error, "this file system has no locks: see to it that one server writes here");
        }
    }
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(note.as_bytes())?;
    Ok(Locked::Ours(Box::new(OwnLock::of(file))))
}

/// Files that the process may have open at one time, where the system tells.
pub(crate) fn open_files_limit() -> Option<u64> {
    #[cfg(target_os = "linux")]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(target_os = "linux"))]
    let limit = None;
    limit
}

/// Locks a folder itself, until the result is dropped; `None` if another process has it. Where there are no locks,
/// all have it.
pub(crate) fn lock_folder(path: &Path) -> io::Result<Option<OwnLock>> {
    let folder = File::open(path)?;
    let is_taken = matches!(folder.try_lock(), Err(TryLockError::WouldBlock));
    Ok((!is_taken).then(|| OwnLock::of(folder)))
}

/// Most bytes of the note in a lock file that are read.
const MAX_NOTE_BYTES: u64 = 256;
