//! The one lock in use, exchanged for loom's in model checking.

#[cfg(not(relive_loom))]
pub(crate) use parking_lot::Mutex;

#[cfg(relive_loom)]
pub(crate) use self::model::Mutex;

#[cfg(relive_loom)]
mod model {
    /// loom's mutex with a `lock` that gives the guard, as parking_lot's does.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("a panic ends the model")
        }
    }
}
