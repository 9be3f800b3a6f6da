//! The file system operations behind a checkpoint, as a trait, so that tests can substitute a failing file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::own_lock::OwnLock;
use super::seam::{Source, WriterLock};

/// A file system. All changes that this crate makes to files go through this trait.
pub(crate) trait Disk: Send + Sync {
    fn create_folders(&self, path: &Path) -> io::Result<()>;

    /// Creates a file that must not exist yet.
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a written file durable.
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    /// Gives a file a second name.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        RealFile::open(path).map(|file| Box::new(file) as Box<dyn Source>)
    }

    /// Returns the names and sizes of the files in a folder, in no particular order.
    fn read_folder(&self, path: &Path) -> io::Result<Vec<(String, u64)>> {
        read_folder(path)
    }

    /// Locks a file against every other process until the result is dropped, and writes `note` to it. Creates the file
    /// if necessary.
    fn lock(&self, path: &Path, note: &str) -> io::Result<Locked> {
        lock(path, note)
    }
}

/// The result of locking a file.
pub(crate) enum Locked {
    /// This process owns the lock until the value is dropped.
    Ours(Box<dyn WriterLock>),
    /// Another owner holds the lock, with this note.
    Theirs(String),
}

/// A file that can be made durable.
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
        // The lock shows other writers that the file is in use. Some network file systems do not support locks.
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

/// Returns whether a process that created the file through [`RealDisk`] still has it open.
pub(crate) fn is_being_written(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// A local file that can be read at any offset.
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
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
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
        // If the file system ignores the advice, the bytes are read on request.
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
        // Names that are not UTF-8 are not Relive's.
        let Ok(name) = entry.file_name().into_string() else { continue };
        match size_of_file(entry.file_type(), || entry.metadata()) {
            Ok(Some(size_bytes)) => found.push((name, size_bytes)),
            Ok(None) => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
        }
    }
    Ok(found)
}

/// Returns the size of a folder's entry, or `None` if it is not a file or another process has removed it by now. Any
/// other failure makes the whole list fail: if a checkpoint were missing in a list, its number would be used again and
/// its segments would be removed. Entries of other types do not matter, even if they cannot be examined.
fn size_of_file(
    file_type: io::Result<fs::FileType>,
    metadata: impl FnOnce() -> io::Result<fs::Metadata>,
) -> io::Result<Option<u64>> {
    match file_type.and_then(|file_type| file_type.is_file().then(metadata).transpose()) {
        Ok(meta) => Ok(meta.map(|meta| meta.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
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
            tracing::warn!(file = %path.display(), %error, "this file system does not support locks: make sure \
                                                            that only one server writes here");
        }
    }
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(note.as_bytes())?;
    Ok(Locked::Ours(Box::new(LockFile { path: path.to_owned(), lock: OwnLock::of(file) })))
}

/// A locked file, with the path that it had when it was locked.
struct LockFile {
    path: PathBuf,
    lock: OwnLock,
}

impl WriterLock for LockFile {
    fn is_held(&self) -> bool {
        self.lock.is_of(&self.path)
    }
}

/// Returns the limit on the process's open files, if the system reports it.
pub(crate) fn open_files_limit() -> Option<u64> {
    #[cfg(target_os = "linux")]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(target_os = "linux"))]
    let limit = None;
    limit
}

/// Locks the folder itself until the result is dropped. Returns `None` if another process has locked it. On file
/// systems without locks, every call succeeds.
pub(crate) fn lock_folder(path: &Path) -> io::Result<Option<OwnLock>> {
    let folder = File::open(path)?;
    let is_taken = matches!(folder.try_lock(), Err(TryLockError::WouldBlock));
    Ok((!is_taken).then(|| OwnLock::of(folder)))
}

/// The maximum number of bytes that are read from the note in a lock file.
const MAX_NOTE_BYTES: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_removed_file_may_be_missing_in_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "1234").unwrap();
        let type_of = |path: &Path| fs::metadata(path).map(|meta| meta.file_type());
        let size = |of: &Path, meta: io::Result<fs::Metadata>| {
            size_of_file(type_of(of), || meta).map_err(|error| error.kind())
        };
        assert_eq!(size(&file, fs::metadata(&file)), Ok(Some(4)));
        let removed = folder.path().join("b");
        assert_eq!(size(&file, fs::metadata(&removed)), Ok(None));
        assert_eq!(size(&removed, fs::metadata(&file)), Ok(None));
        let refused = io::ErrorKind::PermissionDenied;
        assert_eq!(size(&file, Err(refused.into())), Err(refused));
        assert_eq!(size(folder.path(), Err(refused.into())), Ok(None), "a folder need not be examined");
    }
}
