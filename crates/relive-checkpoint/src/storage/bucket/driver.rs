//! The thread on which requests run.

use std::future::Future;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread with a scheduler. Callers hand it work and wait, from whatever thread they are on, schedulers of others
/// included.
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
            // Sent or dropped, it is the end either way.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Begins some work, which goes on whether its result is waited for or not.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Pending<T> {
        let (done, result) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // Nobody may be waiting any more.
            let _ = done.send(work.await);
        });
        Pending { result }
    }

    /// Does some work and waits for it.
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

/// Work that has begun.
pub(super) struct Pending<T> {
    result: Receiver<T>,
}

impl<T> Pending<T> {
    pub(super) fn wait(self) -> io::Result<T> {
        self.result.recv().map_err(|_| gone())
    }

    /// Waits, but not for ever.
    pub(super) fn wait_for(self, time: Duration) -> io::Result<T> {
        self.result.recv_timeout(time).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => io::Error::from(io::ErrorKind::TimedOut),
            mpsc::RecvTimeoutError::Disconnected => gone(),
        })
    }
}

/// The work panicked, or the thread ended with it undone.
fn gone() -> io::Error {
    io::Error::other("the thread that talks to the bucket has ended")
}
