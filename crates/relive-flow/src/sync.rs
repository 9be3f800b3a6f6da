//! Locks and threads, replaced by loom's for model checking.

#[cfg(not(relive_loom))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(not(relive_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(relive_loom))]
pub(crate) use std::thread::JoinHandle;

#[cfg(relive_loom)]
pub(crate) use self::model::{AtomicBool, Condvar, JoinHandle, Mutex, Ordering, spawn};

/// Starts a thread.
#[cfg(not(relive_loom))]
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Returns a lock that must be held while reading or changing the states of pulling threads, so that each view of them
/// is consistent.
pub(crate) fn all_pullers() -> impl std::ops::Deref<Target = ()> {
    #[cfg(not(relive_loom))]
    static ALL: Mutex<()> = Mutex::new(());
    #[cfg(relive_loom)]
    loom::lazy_static! { static ref ALL: Mutex<()> = Mutex::new(()); }
    ALL.lock()
}

/// Returns whether a condition becomes true within 200 yields, which cost less than sleeping and being woken.
#[cfg(not(relive_loom))]
pub(crate) fn spin_until(mut is_true: impl FnMut() -> bool) -> bool {
    const TURNS: usize = 200;
    (0..TURNS).any(|_| {
        let is_true = is_true();
        if !is_true {
            std::thread::yield_now();
        }
        is_true
    })
}

/// A model has no notion of time.
#[cfg(relive_loom)]
pub(crate) fn spin_until(_: impl FnMut() -> bool) -> bool {
    false
}

#[cfg(relive_loom)]
mod model {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::thread::JoinHandle;

    const HELD: &str = "the lock is held";
    const NO_PANIC: &str = "a panic ends the model";

    /// loom's mutex with parking_lot's `lock`.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect(NO_PANIC)))
        }
    }

    /// The lock is released during a wait.
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_deref().expect(HELD)
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_deref_mut().expect(HELD)
        }
    }

    /// loom's condition variable with parking_lot's API. No wait in a model times out.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    /// The result of a wait with a deadline.
    pub(crate) struct WaitResult;

    impl WaitResult {
        #[expect(clippy::unused_self, reason = "as parking_lot's")]
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect(HELD);
            guard.0 = Some(self.0.wait(held).expect(NO_PANIC));
        }

        pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitResult {
            self.wait(guard);
            WaitResult
        }
    }

    pub(crate) fn spawn(_name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
        Ok(loom::thread::spawn(run))
    }
}
