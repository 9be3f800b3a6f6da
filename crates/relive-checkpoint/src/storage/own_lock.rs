//! Locks of files and folders that belong to one process, whatever it forks.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The lock of a file or folder, which ends when this is dropped, also while a fork of this process has the file
/// open, and not when the fork drops it.
pub(crate) struct OwnLock {
    file: Arc<Held>,
    process: u32,
}

/// The file; `None` in a fork that has let go of it.
type Held = Mutex<Option<File>>;

/// All locks of this process.
static LOCKS: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

impl OwnLock {
    pub(crate) fn of(file: File) -> Self {
        let file = Arc::new(Mutex::new(Some(file)));
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|lock| lock.strong_count() > 0);
        locks.push(Arc::downgrade(&file));
        Self { file, process: std::process::id() }
    }
}

impl Drop for OwnLock {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        if let Some(file) = &*self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            // A lock that cannot be given up goes with the process.
            let _ = file.unlock();
        }
    }
}

/// To be called in the child after a fork: closes what this process's checkpoints and disk tiers have locked. The
/// system holds a lock as long as any process has the file open that was locked, so a child that lives on would
/// otherwise keep the folders of a parent that is killed.
///
/// In any other place it gives the locks of this process away. Does nothing for a lock that another thread was just
/// taking when the process was forked.
pub fn close_locks_after_fork() {
    let Ok(locks) = LOCKS.try_lock() else { return };
    for lock in locks.iter().filter_map(Weak::upgrade) {
        if let Ok(mut file) = lock.try_lock() {
            *file = None;
        }
    }
}
