//! The locks, threads and clock that this crate uses. Model checking replaces the locks and threads with loom's.

use std::time::SystemTime;

use relive_table::Timestamp;

#[cfg(not(relive_loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(relive_loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(relive_loom)]
pub(crate) use self::model::{
    AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, fence, spawn, unlock_fair,
};

/// Unlocks and passes the lock to the thread that has waited longest. After an ordinary unlock, the first thread that
/// requests the lock acquires it, which is usually the thread that just held it.
#[cfg(not(relive_loom))]
pub(crate) fn unlock_fair<T>(guard: MutexGuard<'_, T>) {
    MutexGuard::unlock_fair(guard);
}

/// Starts a detached thread.
#[cfg(not(relive_loom))]
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Times before 1970 or after 2262, which a working clock never returns, are mapped to the epoch.
pub(crate) fn wall_clock() -> Timestamp {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(0))
}

#[cfg(relive_loom)]
mod model {
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

    /// loom's mutex, with a `lock` that returns the guard directly, like parking_lot's.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a panic ends the model")
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    pub(crate) fn unlock_fair<T>(guard: MutexGuard<'_, T>) {
        drop(guard);
    }

    pub(crate) fn spawn(_name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        drop(loom::thread::spawn(run));
        Ok(())
    }
}
