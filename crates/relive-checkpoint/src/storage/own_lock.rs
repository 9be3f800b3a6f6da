//! Locks on files and folders that belong to one process and not to its forks.

use std::fs::{File, Metadata};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A lock on a file or folder. It ends when this process drops it, even if a fork still has the file open, and does not
/// end when a fork drops it.
pub(crate) struct OwnLock {
    file: Arc<LockedFile>,
    process: u32,
}

/// The file, or `None` in a fork that has closed it.
type LockedFile = Mutex<Option<File>>;

/// All locks that this process holds.
static LOCKS: Mutex<Vec<Weak<LockedFile>>> = Mutex::new(Vec::new());

impl OwnLock {
    pub(crate) fn of(file: File) -> Self {
        let file = Arc::new(Mutex::new(Some(file)));
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|lock| lock.strong_count() > 0);
        locks.push(Arc::downgrade(&file));
        Self { file, process: std::process::id() }
    }

    /// Returns whether the locked file is the one at this path.
    pub(crate) fn is_of(&self, path: &Path) -> bool {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let own = file.as_ref().and_then(|file| file.metadata().ok());
        own.zip(std::fs::metadata(path).ok()).is_some_and(|(own, there)| are_same(&own, &there))
    }
}

#[cfg(unix)]
fn are_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Files without numbers are compared by their existence.
#[cfg(not(unix))]
fn are_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

impl Drop for OwnLock {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        if let Some(file) = &*self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            // If the lock cannot be released now, it ends with the process.
            let _ = file.unlock();
        }
    }
}

/// Closes the files that this process's checkpoints and disk tiers have locked. Call this in the child after a fork.
/// The system holds a lock while any process has the locked file open, so a surviving child would otherwise keep the
/// folders of a killed parent locked.
///
/// If it is called anywhere else, this function releases the locks that the process holds. It has no effect on a lock
/// that another thread was taking at the moment of the fork.
pub fn close_locks_after_fork() {
    let Ok(locks) = LOCKS.try_lock() else { return };
    for lock in locks.iter().filter_map(Weak::upgrade) {
        if let Ok(mut file) = lock.try_lock() {
            *file = None;
        }
    }
}
