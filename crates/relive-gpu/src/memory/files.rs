//! Files and shared memory objects that belong to one owner, and are removed with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals,
    fcntl_get_seals, flock, fstatvfs, memfd_create,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;

use super::header;
use super::identity::Identity;
use super::layout::PAGE;
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};

/// The folder that contains Linux's shared memory objects; `shm_open` opens files in it.
const SHARED_MEMORY: &str = "/dev/shm";
/// The maximum length of a segment's name in bytes, the same as for any file name.
const MAX_NAME_BYTES: usize = 255;
/// If a file still has no owner after this time, the process that was creating it has died.
const MAKING: Duration = Duration::from_secs(5);
/// The number of attempts to create a name for which other processes compete.
const TRIES: usize = 100;
/// The pause between attempts. Another process does not take longer than this to remove a stale file.
const BETWEEN_TRIES: Duration = Duration::from_millis(1);
/// The number of bytes that are reserved at a time. A signal undoes the reservation that it interrupts.
const RESERVED_BYTES: usize = 64 << 20;
/// The number of zeros that are written at a time.
const ZEROS: usize = 1 << 20;
/// First bytes of a file that is still being created.
pub(crate) const MAKING_MAGIC: [u8; 8] = *b"RLVBEGIN";
/// First bytes of a column's file.
pub(crate) const COLUMN_MAGIC: [u8; 8] = *b"RLVCOLMN";
/// Seals that prevent other processes from changing the memory's size; shrinking it would kill its readers.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The name of a file, removed on drop.
#[derive(Debug)]
pub(crate) struct Name {
    path: PathBuf,
    /// The file that had the name at creation: a later file with this name must not be removed.
    inode: u64,
}

impl Drop for Name {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Another process may already have removed the file, and an error cannot be reported from here.
            let _: io::Result<()> = fs::remove_file(&self.path);
        }
    }
}

/// Returns the file behind the name of a shared memory object.
pub(crate) fn shared_memory(name: &str) -> Result<PathBuf> {
    let plain = name.strip_prefix('/').unwrap_or(name);
    let fits = !plain.is_empty() && plain.len() <= MAX_NAME_BYTES && !plain.contains(['/', '\0']);
    if !fits || plain.starts_with('.') {
        return Err(Error::invalid(format!(
            "{name:?} is not a valid name of a segment; use 1 to {MAX_NAME_BYTES} bytes without / and NUL, not starting with a dot"
        )));
    }
    Ok(Path::new(SHARED_MEMORY).join(plain))
}

/// Creates a file with the given name, mode 0600 and size `bytes`. It starts with the marker of an unfinished file, and
/// with the owner's identity at `identity_at`. Replaces the file of a dead owner. Fails if the owner of an existing
/// file is alive, or if the file does not belong to a store.
pub(crate) fn create(path: &Path, bytes: u64, identity_at: u64) -> Result<(File, Name)> {
    for _ in 0..TRIES {
        let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
        match options.open(path) {
            Ok(file) => {
                let made = start(&file, path, bytes, identity_at);
                let inode = file.metadata().map_err(|error| failed("look at", path, error))?.ino();
                let name = Name { path: path.to_owned(), inode };
                return made.map(|()| (file, name));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => remove_stale(path, identity_at)?,
            Err(error) => return Err(failed("create", path, error)),
        }
    }
    let text = format!("other processes created {} {TRIES} times while this process tried", path.display());
    Err(Error::unavailable(text))
}

fn start(file: &File, path: &Path, bytes: u64, identity_at: u64) -> Result<()> {
    let identity = Identity::current()?;
    // The values are written in one call, so that other processes see either an empty file or both values.
    let mut first = MAKING_MAGIC.to_vec();
    first.resize(narrow(identity_at), 0);
    first.extend_from_slice(&identity.word().to_le_bytes());
    let done = file.write_all_at(&first, 0).and_then(|()| file.set_len(bytes));
    done.map_err(|error| failed("begin", path, error))?;
    let space = fstatvfs(file).map_err(|error| failed("look at the space for", path, error.into()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    // A file system without a limit reports no blocks at all. Elsewhere, a request that is too large is refused before
    // it fills the file system.
    if space.f_blocks > 0 && bytes > free {
        return Err(Error::unavailable(format!(
            "{} needs {bytes} bytes, but only {free} are free there; lower the capacity, or free some space",
            path.display()
        )));
    }
    Ok(())
}

/// Reserves the space of a file now, so that later writes do not run out of space. On file systems that cannot reserve
/// space, everything but the first page, which has been written, is overwritten with zeros.
pub(crate) fn reserve(file: &File, what: &str, bytes: u64) -> Result<()> {
    let reserved = match allocate(file, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file, bytes),
        outcome => outcome.map_err(io::Error::from),
    };
    reserved.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => Error::unavailable(format!(
            "there is no space for the {bytes} bytes of {what}; lower the capacity, or free some space"
        )),
        _ => Error::system(format_args!("take space for {what}"), error),
    })
}

fn allocate(file: &File, bytes: u64) -> Result<(), Errno> {
    for start in (0..bytes).step_by(RESERVED_BYTES) {
        let part = wide(RESERVED_BYTES).min(bytes - start);
        retry_on_intr(|| fallocate(file, FallocateFlags::empty(), start, part))?;
    }
    Ok(())
}

/// Writes zeros after the first page.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    for start in (PAGE..bytes).step_by(ZEROS) {
        file.write_all_at(&zeros[..ZEROS.min(narrow(bytes - start))], start)?;
    }
    Ok(())
}

/// Locks a file for this process. Returns whether that was possible; another process may have locked the file. Without
/// locks in the file system, every call succeeds.
pub(crate) fn try_lock(file: &File, path: &Path) -> Result<bool> {
    is_locked(flock(file, FlockOperation::NonBlockingLockExclusive), path)
}

fn is_locked(outcome: rustix::io::Result<()>, path: &Path) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error @ (Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP)) => {
            tracing::warn!(file = %path.display(), %error, "this file system does not support locks: make sure that \
                                                            only one process writes here");
            Ok(true)
        }
        Err(error) => Err(failed("lock", path, error.into())),
    }
}

/// Removes a file whose owner is dead. The lock prevents two processes that both see the old file from removing each
/// other's new one.
fn remove_stale(path: &Path, identity_at: u64) -> Result<()> {
    // Opening a pipe would block, and a link would be followed.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(no_store(path));
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused("open", path, error)),
    };
    if !try_lock(&file, path)? {
        std::thread::sleep(BETWEEN_TRIES);
        return Ok(());
    }
    let ours = file.metadata().map_err(|error| failed("look at", path, error))?;
    if fs::metadata(path).map_or(true, |named| named.ino() != ours.ino()) {
        return Ok(());
    }
    let made = ours.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let word = owner_of(&file, path, identity_at)?;
    let identity = Identity::from_word(word);
    let stale = match word {
        0 => SystemTime::now().duration_since(made).is_ok_and(|age| age > MAKING),
        _ => !identity.is_alive(),
    };
    if !stale {
        let way_out = "choose another name, or attach to the store";
        let owner = match identity.pid() {
            _ if word == 0 => format!("being created; {way_out}"),
            pid if pid == u64::from(process::id()) => {
                format!("in use by process {pid}, which is this one; close the earlier store, {way_out}")
            }
            pid => format!("in use by process {pid}; {way_out}"),
        };
        return Err(Error::unavailable(format!("{} is {owner}", path.display())));
    }
    fs::remove_file(path).map_err(|error| refused("remove the stale", path, error))
}

/// Returns the identity in a file of a store; 0 if the file is still empty.
///
/// # Errors
/// The file does not belong to a store, so it must not be removed.
fn owner_of(file: &File, path: &Path, identity_at: u64) -> Result<u64> {
    let end = narrow(identity_at) + size_of::<u64>();
    let bytes = beginning(file, wide(end), &path.display().to_string())?;
    let known = [MAKING_MAGIC, COLUMN_MAGIC, header::MAGIC];
    match bytes.last_chunk() {
        None if bytes.is_empty() => Ok(0),
        Some(word) if bytes.len() == end && known.iter().any(|magic| bytes.starts_with(magic)) => {
            Ok(u64::from_le_bytes(*word))
        }
        _ => Err(no_store(path)),
    }
}

fn no_store(path: &Path) -> Error {
    Error::unavailable(format!("{} exists, but is not a store; choose another name", path.display()))
}

/// Returns the error of an operation that may have failed because the file belongs to another user.
fn refused(what: &str, path: &Path, error: io::Error) -> Error {
    let is_foreign = || fs::symlink_metadata(path).is_ok_and(|found| found.uid() != geteuid().as_raw());
    if error.kind() == io::ErrorKind::PermissionDenied && is_foreign() {
        return of_another_user(path);
    }
    failed(what, path, error)
}

fn of_another_user(path: &Path) -> Error {
    Error::unavailable(format!("{} belongs to another user; choose another name", path.display()))
}

/// Opens a file that another process has created. Links are not followed.
fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(format!("there is no {}", path.display())),
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => no_store(path),
        _ => refused("open", path, error),
    })
}

/// Like [`open`], but the file must belong to this user or to root: in a folder where everybody may create files, it
/// could be another user's.
pub(crate) fn open_own(path: &Path) -> Result<File> {
    let file = open(path)?;
    let owner = file.metadata().map_err(|error| failed("look at", path, error))?.uid();
    if owner != geteuid().as_raw() && owner != 0 {
        return Err(of_another_user(path));
    }
    Ok(file)
}

/// Creates unnamed memory, whose descriptor can be passed to other processes.
pub(crate) fn anonymous(bytes: u64) -> Result<File> {
    let failed = |error: Errno| Error::system("create anonymous shared memory", error.into());
    let file = memfd_create("relive-gpu", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(failed)?;
    fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    rustix::fs::ftruncate(&file, bytes).map_err(failed)?;
    fcntl_add_seals(&file, FIXED_SIZE).map_err(failed)?;
    Ok(File::from(file))
}

/// Returns the memory behind a received descriptor; the memory must have a fixed size.
pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Result<File> {
    let sealed = fcntl_get_seals(descriptor.as_fd()).is_ok_and(|seals| seals.contains(FIXED_SIZE));
    if !sealed {
        let text = "the descriptor is not shared memory of a fixed size; pass the one that Store::descriptor returns";
        return Err(Error::invalid(text));
    }
    Ok(File::from(descriptor))
}

/// Returns the first `count` bytes, or all if there are fewer.
pub(crate) fn beginning(mut file: &File, count: u64, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(count).read_to_end(&mut bytes));
    read.map_err(|error| Error::system(format_args!("read {what}"), error))?;
    Ok(bytes)
}

/// Reads eight bytes of a file. Returns `None` if the file is shorter.
pub(crate) fn word(file: &File, at: u64, what: &str) -> Result<Option<[u8; 8]>> {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Error::system(format_args!("read {what}"), error)),
    }
}

/// Writes bytes to a file that this process has created.
pub(crate) fn write_at(file: &File, bytes: &[u8], at: u64, what: &str) -> Result<()> {
    let written = file.write_all_at(bytes, at);
    written.map_err(|error| Error::system(format_args!("write {what}"), error))
}

/// Creates a file in place of one that an earlier attempt left. A link with its name is replaced, not followed.
pub(crate) fn create_again(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::options().read(true).write(true).create_new(true).open(path),
    }
}

/// Writes a whole file durably, by writing it under a temporary name and renaming it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let written = create_again(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| {
        // The file may be missing; the error to report is that of the write.
        drop(fs::remove_file(&temporary));
        failed("write", &temporary, error)
    })?;
    fs::rename(&temporary, path).map_err(|error| failed("rename to", path, error))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes creations, renames and removals in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| failed("sync the folder", path, error))
}

/// Returns an error with the operation and the file.
pub(crate) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::system(format_args!("{what} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const IDENTITY_AT: u64 = 1032;
    const BYTES: u64 = 8192;
    /// Returns the first bytes of a file whose process ended long ago.
    fn left(magic: [u8; 8]) -> Vec<u8> {
        let mut bytes = magic.to_vec();
        bytes.resize(narrow(IDENTITY_AT), 0);
        bytes.extend_from_slice(&1_u64.to_le_bytes());
        bytes
    }

    #[test]
    fn only_leftover_store_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let others = [
            b"precious".to_vec(),
            vec![7; 1 << 14],
            vec![0; 1 << 14],
            left(*b"RLVOTHER"),
            left(MAKING_MAGIC)[..900].to_vec(),
        ];
        for bytes in others {
            fs::write(&path, &bytes).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let error = create(&path, BYTES, IDENTITY_AT).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("is not a store"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(create(&path, BYTES, IDENTITY_AT).unwrap_err().to_string().contains("is not a store"));
        fs::remove_dir(&path).unwrap();
        let target = folder.path().join("target");
        fs::write(&target, left(header::MAGIC)).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(create(&path, BYTES, IDENTITY_AT).unwrap_err().to_string().contains("is not a store"));
        assert!(target.exists());
    }

    #[test]
    fn leftover_files_of_a_dead_process_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [left(MAKING_MAGIC), left(COLUMN_MAGIC), left(header::MAGIC), Vec::new()] {
            fs::write(&path, &bytes).unwrap();
            if bytes.is_empty() {
                // The empty file may belong to a process that is just creating it.
                let error = create(&path, BYTES, IDENTITY_AT).unwrap_err();
                assert!(error.to_string().contains("is being created"), "{error}");
                let file = File::options().write(true).open(&path).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
            let (file, name) = create(&path, BYTES, IDENTITY_AT).unwrap();
            assert_eq!(file.metadata().unwrap().len(), BYTES);
            let error = create(&path, BYTES, IDENTITY_AT).unwrap_err();
            assert!(error.to_string().contains("in use by process"), "{error}");
            drop(name);
            assert!(!path.exists());
        }
    }

    #[test]
    fn files_of_other_users_and_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&path, left(header::MAGIC)).unwrap();
        open_own(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = open_own(&link).unwrap_err();
        assert!(error.to_string().contains("is not a store"), "{error}");
        // Only root can give files away.
        if std::os::unix::fs::chown(&path, Some(geteuid().as_raw() + 1), None).is_ok() {
            let denied = refused("open", &path, io::ErrorKind::PermissionDenied.into());
            for error in [open_own(&path).unwrap_err(), denied] {
                assert_eq!(error.kind(), ErrorKind::Unavailable);
                assert!(
                    error.to_string().ends_with("belongs to another user; choose another name"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn an_earlier_attempt_is_replaced_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, temporary, target] = ["file", "file.tmp", "target"].map(|name| folder.path().join(name));
        fs::write(&target, "precious").unwrap();
        fs::write(&temporary, "a long rest of an earlier attempt").unwrap();
        write_whole(&path, b"first").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        std::os::unix::fs::symlink(&target, &temporary).unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn file_systems_without_locks_are_accepted() {
        let locked = |errno| is_locked(Err(errno), Path::new("x"));
        assert!(is_locked(Ok(()), Path::new("x")).unwrap());
        assert!(!locked(Errno::WOULDBLOCK).unwrap());
        for errno in [Errno::NOSYS, Errno::NOLCK, Errno::OPNOTSUPP] {
            assert!(locked(errno).unwrap());
        }
        assert_eq!(locked(Errno::BADF).unwrap_err().kind(), ErrorKind::System);
    }

    #[test]
    fn space_is_taken_even_where_it_cannot_be_reserved() {
        const BYTES: u64 = 5 << 20;
        let takes: [fn(&File); 2] =
            [|file| reserve(file, "it", BYTES).unwrap(), |file| fill(file, BYTES).unwrap()];
        for take in takes {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&MAKING_MAGIC, 0).unwrap();
            file.set_len(BYTES).unwrap();
            take(&file);
            let found = file.metadata().unwrap();
            assert!(found.len() == BYTES && found.blocks() * 512 >= BYTES, "{found:?}");
            assert_eq!(word(&file, 0, "it").unwrap(), Some(MAKING_MAGIC));
        }
    }
}
