//! The thread that runs requests.

use std::future::Future;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread with an async runtime. Callers on any thread, including threads of other runtimes, pass work to it and
/// wait.
pub(super) struct Driver {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("relive-bucket".to_owned()).spawn(move || {
            // The runtime ends when the sender sends a message or is dropped.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Starts work that continues whether or not its result is awaited.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Pending<T> {
        let (done, result) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // The caller may no longer be waiting.
            let _ = done.send(work.await);
        });
        Pending { result }
    }

    /// Runs work and waits for its result.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        self.begin(work).wait()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a bucket panicked");
        }
    }
}

/// The result of work that the thread has begun. Dropping it does not stop the work.
pub(super) struct Pending<T> {
    result: Receiver<T>,
}

impl<T> Pending<T> {
    pub(super) fn wait(self) -> io::Result<T> {
        self.result.recv().map_err(|_| stopped())
    }

    /// Waits for a limited time.
    pub(super) fn wait_for(self, time: Duration) -> io::Result<T> {
        self.result.recv_timeout(time).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => io::Error::from(io::ErrorKind::TimedOut),
            mpsc::RecvTimeoutError::Disconnected => stopped(),
        })
    }
}

/// The work panicked, or the thread ended before the work was done.
fn stopped() -> io::Error {
    io::Error::other("the thread that talks to the bucket has ended")
}
