//! Starts the threads of a run.

use std::thread::{Builder, JoinHandle};

use crate::{Result, RlError};

/// Starts a thread with this name.
///
/// # Errors
/// [`Thread`](RlError::Thread) if the system starts no further thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(|error| RlError::Thread { name, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_name_and_an_error_names_it() {
        let name = spawn("relive-test", || std::thread::current().name().map(str::to_owned)).unwrap();
        assert_eq!(name.join().unwrap().as_deref(), Some("relive-test"));
        let error = RlError::Thread { name: "relive-test", error: std::io::ErrorKind::WouldBlock.into() };
        assert!(error.to_string().starts_with("cannot start the thread relive-test: "), "{error}");
    }
}
