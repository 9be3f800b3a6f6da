//! The runtime of a blocking client.

use std::ops::Deref;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::{Error, ErrorKind, Result};

/// The number of threads in a client's runtime. One of them can decode messages while the other is waiting for the
/// socket.
const WORKER_THREADS: usize = 2;

/// A runtime that may be dropped anywhere, also by a task of another runtime, which must not wait for its threads.
#[derive(Debug)]
pub(super) struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    /// # Errors
    /// `Internal` if the threads cannot be started.
    pub(super) fn start() -> Result<OwnRuntime> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("relive-client")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| {
            let text = format!("cannot start the client's threads: {error}");
            Error::with_source(ErrorKind::Internal, text, error)
        })?;
        Ok(OwnRuntime(Some(runtime)))
    }
}

impl Deref for OwnRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("the runtime exists until this is dropped")
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        let runtime = self.0.take();
        if Handle::try_current().is_ok() {
            runtime.into_iter().for_each(Runtime::shutdown_background);
        }
    }
}
