//! The locks, threads and clock in use; locks and threads are exchanged for loom's in model checking.

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

/// Gives a lock to whoever has waited for it longest, where an ordinary unlock lets the first to come have it, which is
/// mostly the thread that has just had it.
#[cfg(not(relive_loom))]
pub(crate) fn unlock_fair<T>(guard: MutexGuard<'_, T>) {
    MutexGuard::unlock_fair(guard);
}

/// Starts a thread that nobody waits for.
#[cfg(not(relive_loom))]
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Times before 1970 and after 2262 do not occur on a working clock; they count as the epoch.
pub(crate) fn wall_clock() -> Timestamp {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(0))
}

#[cfg(relive_loom)]
mod model {
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

    /// loom's mutex with a `lock` that gives the guard, as parking_lot's does.
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
